/**
 * A model's hook that never returns is interrupted, or its HTTP process is ended and starts again. Other inputs get
 * their outputs.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { clientOf, type RunningCli } from "../helpers/cli.ts";
import type { Client, PredictionBody } from "../helpers/client.ts";
import { inRole } from "../helpers/running.ts";
import { storeWith, type TestStore } from "../helpers/server.ts";
import { serveStray, strayModel } from "../helpers/stray-model.ts";
import { type TempDir, tempDir } from "../helpers/temp-dir.ts";

let dir: TempDir;
let store: TestStore;

beforeAll(async () => {
  dir = await tempDir();
  store = await storeWith(await strayModel(dir));
});

afterAll(async () => {
  await store[Symbol.asyncDispose]();
  await dir[Symbol.asyncDispose]();
});

const serve = (...args: string[]): RunningCli => serveStray(store, "none", ...args);

/** Resolves with the ended prediction. Repeats the request while the HTTP process restarts and refuses connections. */
async function endOf(client: Client, id: string): Promise<PredictionBody> {
  for (;;) {
    const ended = await client.end(id).catch(() => undefined);
    if (ended !== undefined) return ended;
    await Bun.sleep(10);
  }
}

test("a hook of a started server that never returns is interrupted: its input fails, and the front goes on", async () => {
  await using server = serve("--store", dir.join("interrupted.sqlite"), "--hook-timeout", "0.5");
  const client = await clientOf(server);
  const before = await inRole(server.pid, "front");
  const { error_message, partial_outputs } = await client.predict([{ x: 2 }, { x: -1 }, { x: 5 }]);
  expect(error_message).toContain("input 1: the model failed in preprocess: it did not return within 0.5 s");
  expect(partial_outputs).toEqual([{ y: 5 }, null, { y: 11 }]);
  expect(await inRole(server.pid, "front")).toEqual(before);
});

test.each([
  ["after many quick calls", -1, 600],
  ["after an await", -2, 0],
])(
  "a hook that never returns %s ends the only front: its input fails with the hook's name when sent again",
  async (_, x, earlier) => {
    await using server = serve("--store", dir.join(`held${x}.sqlite`), "--hook-timeout", "0.5");
    const client = await clientOf(server);
    // After 1000 quick calls of hooks, calls have no time limit that would interrupt a hook.
    if (earlier > 0) await client.predict(Array.from({ length: earlier }, () => ({ x: 2 })));
    const inputs = [{ x: 2 }, { x }, { x: 5 }];
    const id = `held-00000000000${-x}`;
    // On a kept connection, fetch could repeat the request when the process ends.
    await client.put(id, inputs, { Connection: "close" }).catch(() => {});
    await server.line("The front process was ended: it gave no answer for 1 s; starting it again");
    await server.line(`The front process was blocked by preprocess of input 1 of the prediction ${id}`);
    await server.line("The front process is ready again");
    const failed = await client.put(id, inputs);
    expect(failed.error_message).toContain("input 1: the model failed in preprocess: it did not return in time");
    expect(await server.line("preprocess failed: it held its process")).toContain("1 s (twice --hook-timeout)");
    expect(failed.partial_outputs).toEqual([{ y: 5 }, null, { y: 11 }]);
  },
);

test("among several running hooks, the one that blocks the HTTP process is identified, and concurrent predictions run again", async () => {
  const gate = dir.join("several");
  await using server = serveStray(store, gate, "--store", dir.join("several.sqlite"), "--hook-timeout", "0.5");
  const client = await clientOf(server);
  const beside = await client.create([{ x: 3 }, { x: 51 }], { Connection: "close" });
  const held = await client.create([{ x: 2 }, { x: -3 }, { x: 5 }], { Connection: "close" });
  await writeFile(`${gate}.hold`, "");
  await server.line("starting it again");
  await writeFile(`${gate}.go`, "");
  // The next process runs the inputs of the ended process one by one, so the bad input blocks it a second time.
  const failed = await endOf(client, held.prediction_id);
  expect(failed.error_message).toContain("input 1: the model failed in preprocess: it did not return in time");
  expect(failed.partial_outputs).toEqual([{ y: 5 }, null, { y: 11 }]);
  const { status, outputs } = await endOf(client, beside.prediction_id);
  expect({ status, outputs }).toEqual({ status: "success", outputs: [{ y: 7 }, { y: 103 }] });
});

test("a blocked process with --no-isolate ends with one line; the next server has the stored predictions", async () => {
  const file = dir.join("stray.sqlite");
  let kept = "";
  {
    await using server = serve("--no-isolate", "--store", file, "--hook-timeout", "0.5", "--batch-timeout", "1");
    const client = await clientOf(server);
    kept = (await client.create([{ x: 3 }])).prediction_id;
    await client.end(kept);
    await client.create([{ x: -2 }]).catch(() => {});
    await server.line("the model's code has blocked the server for 1 s (twice --hook-timeout)");
    expect(await server.exited).toBe(1);
  }
  await using next = serve("--store", file);
  expect(await (await clientOf(next)).end(kept)).toMatchObject({ status: "success", outputs: [{ y: 7 }] });
});

test("a blocked HTTP process restarts, and the other HTTP processes answer meanwhile", async () => {
  await using server = serve("--store", "memory", "--fronts", "2", "--hook-timeout", "0.5");
  const client = await clientOf(server);
  const before = await inRole(server.pid, "front");
  await client.create([{ x: -2 }], { Connection: "close" }).catch(() => {});
  await server.line("was ended: it gave no answer for 1 s; starting it again");
  await server.line("is ready again");
  const after = await inRole(server.pid, "front");
  expect(after.filter((pid) => before.includes(pid))).toHaveLength(1);
  const { outputs } = await client.end((await client.create([{ x: 2 }], { Connection: "close" })).prediction_id);
  expect(outputs).toEqual([{ y: 5 }]);
});
