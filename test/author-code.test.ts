/** What a model's own code can do to the server's processes: end them, block them, or never return. */
import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { clientOf } from "./helpers/cli.ts";
import type { Client } from "./helpers/client.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";
import { serveStray, strayModel, strayPreprocess } from "./helpers/stray-model.ts";

const dir = fixture(tempDir);
const store = fixture(async () => storeWith(await strayModel(dir)));

/** Sends a GET on a new connection: a kept connection would go to one HTTP process only. */
async function get(client: Client, path: string) {
  const response = await client.fetch(path, { headers: { Connection: "close" }, keepalive: false });
  return { status: response.status, body: await response.json() };
}

test("a build refuses a model whose example calls process.exit, and says why", async () => {
  const folder = await writeModel(
    dir,
    modelText({ name: '"leaving"', preprocess: strayPreprocess, example: "{ x: 101 }" }),
    "leaving",
  );
  const { code, stderr } = await store.cliHere(["build", folder]);
  expect(code).toBe(1);
  expect(stderr).toContain("process.exit(0) was called");
});

test("process.exit fails the input, and the server continues; requests wait while a hook blocks the only front", async () => {
  const gate = dir.join("live");
  await using server = serveStray(store, gate, "--store", "memory");
  const client = await clientOf(server);
  const failed = await client.end((await client.create([{ x: 101 }])).prediction_id);
  expect(failed).toMatchObject({ status: "failed", errors: [{ index: 0 }] });
  const message = "process.exit(0) was called, but a model must not end the server: throw an error instead";
  expect(await server.line("preprocess failed: ")).toContain(message);
  const { outputs } = await client.end((await client.create([{ x: 2 }])).prediction_id);
  expect(outputs).toEqual([{ y: 5 }]);
  const held = client.predict([{ x: -4 }]);
  await until(() => existsSync(`${gate}.begun`));
  const ready = get(client, "/health/ready");
  await writeFile(`${gate}.go`, "");
  expect((await held).status).toBe("success");
  expect(await ready).toEqual({ status: 200, body: { status: "ready" } });
});
