/** An executable file starts all processes of a server from its one file. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { clientOf, follow } from "../helpers/cli.ts";
import { fileUri } from "../helpers/data-uri.ts";
import { digitsExecutable } from "../helpers/executable.ts";
import { tempDir } from "../helpers/fixture.ts";
import { cacheFolder } from "../helpers/machine.ts";
import { inRole } from "../helpers/running.ts";

test("an executable file has the same processes, all started from the one file", async () => {
  await using dir = await tempDir();
  await using file = await digitsExecutable();
  const child = Bun.spawn([file.path, "--host", "127.0.0.1", "-p", "0", "--fronts", "2"], {
    env: { HOME: dir.path, PATH: "", SCONCE_CACHE_DIR: cacheFolder },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  await using server = follow(child);
  const client = await clientOf(server);
  const [engine = 0] = await inRole(server.pid, "engine");
  process.kill(engine, "SIGKILL");
  const image = await fileUri(join(import.meta.dir, "../../examples/digits/samples/3.png"));
  expect((await client.predict([{ image }])).outputs).toMatchObject([{ digit: 3 }]);
  expect(await inRole(server.pid, "front")).toHaveLength(2);
  server.kill("SIGTERM");
  expect(await server.exited).toBe(0);
});
