/** What a model's own code does to the processes that it runs in, and what it can't. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { cli, clientOf, type RunningCli, startCli } from "./helpers/cli.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { inRole } from "./helpers/running.ts";
import { storeWith, type TestStore } from "./helpers/server.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";

setDefaultTimeout(120_000);

/** For -1 it never returns, below that it never returns after an `await`, and above 100 it ends the process. */
const preprocess =
  "({ x }) => { while (x === -1); if (x < -1) return Promise.resolve().then(() => { for (;;); }); if (x > 100) process.exit(0); return { x: tensor(Float32Array.of(x), []), steps: tensor(BigInt64Array.of(0n), []) }; }";
const message = "preprocess failed: process.exit(0) was called, which ends no process of a server: throw an error";

let dir: TempDir;
let store: TestStore;

beforeAll(async () => {
  dir = await tempDir();
  store = await storeWith(await writeModel(dir, modelText({ name: '"stray"', preprocess }), "stray"));
});

afterAll(async () => {
  await store[Symbol.asyncDispose]();
  await dir[Symbol.asyncDispose]();
});

const serve = (...args: string[]): RunningCli =>
  startCli(["serve", "stray", "--host", "127.0.0.1", "-p", "0", ...args], { env: { SCONCE_HOME: store.home } });

test("an input for which process.exit is called fails, and the server goes on", async () => {
  await using server = serve("--store", "memory");
  const client = await clientOf(server);
  const failed = await client.end((await client.create([{ x: 101 }])).prediction_id);
  expect(failed.error_message).toContain(message);
  const { outputs } = await client.end((await client.create([{ x: 2 }])).prediction_id);
  expect(outputs).toEqual([{ y: 5 }]);
});

test("a model whose example makes it call process.exit is not packaged, and build says why", async () => {
  const folder = await writeModel(dir, modelText({ name: '"leaving"', preprocess, example: "{ x: 101 }" }), "leaving");
  const { code, stderr } = await cli(["build", folder], { env: { SCONCE_HOME: store.home } });
  expect(code).toBe(1);
  expect(stderr).toContain("process.exit(0) was called");
});

test("a hook that never returns is interrupted: its input fails by name, and the prediction beside it succeeds", async () => {
  await using server = serve("--store", "memory", "--hook-timeout", "0.5");
  const client = await clientOf(server);
  const [held, beside] = await Promise.all([client.create([{ x: 2 }, { x: -1 }]), client.create([{ x: 3 }])]);
  const failed = await client.end(held.prediction_id);
  expect(failed.error_message).toContain("input 1: preprocess failed: it did not return within 0.5 s (--hook-timeout)");
  expect(await client.end(beside.prediction_id)).toMatchObject({ status: "success", outputs: [{ y: 7 }] });
  expect(await client.end((await client.create([{ x: 2 }])).prediction_id)).toMatchObject({ outputs: [{ y: 5 }] });
});

test("a server whose model's code never returns ends with a line that says so; the next one tells what was kept", async () => {
  const file = dir.join("stray.sqlite");
  let kept = "";
  {
    await using server = serve("--store", file, "--hook-timeout", "0.5");
    const client = await clientOf(server);
    kept = (await client.create([{ x: 3 }])).prediction_id;
    await client.end(kept);
    await client.create([{ x: -2 }]).catch(() => {});
    await server.line("the model's code has held the server for 1 s (twice --hook-timeout)");
    expect(await server.exited).toBe(1);
  }
  await using next = serve("--store", file);
  expect(await (await clientOf(next)).end(kept)).toMatchObject({ status: "success", outputs: [{ y: 7 }] });
});

test("of several fronts one whose model's code never returns is started again, and the others answer meanwhile", async () => {
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
