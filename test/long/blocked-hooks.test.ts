/** A model's hook that never returns ends its front, which starts again. Other inputs get their outputs. */
import { expect, test } from "bun:test";
import { clientOf } from "../helpers/cli.ts";
import { fixture, tempDir } from "../helpers/fixture.ts";
import { inRole } from "../helpers/running.ts";
import { storeWith } from "../helpers/server.ts";
import { serveStray, strayModel } from "../helpers/stray-model.ts";

const dir = fixture(tempDir);
const store = fixture(async () => storeWith(await strayModel(dir)));

test.concurrent("a hook that never returns ends the only front: its input fails, and the prediction has all other outputs", async () => {
  await using server = serveStray(store, "none", "--store", dir.join("held.sqlite"));
  const client = await clientOf(server);
  const inputs = [{ x: 2 }, { x: -1 }, { x: 5 }, { x: -1 }];
  const id = "held-000000000001";
  // The inputs 1 and 3 block the front, one after the other. The front ends before it accepts the prediction.
  for (const input of [1, 3]) {
    // On a kept connection, fetch could repeat the request when the process ends.
    await client.put(id, inputs, { Connection: "close" }).catch(() => {});
    await server.line(`The front process 1 was blocked by preprocess of input ${input} of the prediction ${id}`);
    await client.ready();
  }
  const failed = await client.put(id, inputs);
  expect(failed.error_message).toMatch(/input 1: .*: it did not return in time/);
  expect(failed.partial_outputs).toEqual([{ y: 5 }, null, { y: 11 }, null]);
});

test.concurrent("a blocked front restarts, and the other fronts answer meanwhile", async () => {
  await using server = serveStray(store, "none", "--store", "memory", "--fronts", "2");
  const client = await clientOf(server);
  const before = await inRole(server.pid, "front");
  await client.create([{ x: -1 }], { Connection: "close" }).catch(() => {});
  await server.line("was ended: it gave no answer for 10 s; starting it again");
  await server.line("is ready again");
  const after = await inRole(server.pid, "front");
  expect(after.filter((pid) => before.includes(pid))).toHaveLength(1);
  const { outputs } = await client.end((await client.create([{ x: 2 }], { Connection: "close" })).prediction_id);
  expect(outputs).toEqual([{ y: 5 }]);
});
