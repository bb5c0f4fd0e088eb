/** What a model's own code can do to the server's processes: end them, block them, or never return. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { cli, clientOf, type RunningCli, startCli } from "./helpers/cli.ts";
import type { Client, PredictionBody } from "./helpers/client.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { inRole, until } from "./helpers/running.ts";
import { storeWith, type TestStore } from "./helpers/server.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";

/**
 * The hook `preprocess` of the tests. The input x chooses its behaviour: -1 never returns, -2 never returns after an
 * `await`, -3 never returns after the file GATE.hold exists. -4 blocks the thread until the file GATE.go exists, 51
 * awaits that file, and values above 100 end the process.
 */
const preprocess = `({ x }) => {
  const { existsSync, writeFileSync } = process.getBuiltinModule("node:fs");
  const made = () => ({ x: tensor(Float32Array.of(x), []), steps: tensor(BigInt64Array.of(0n), []) });
  const until = async (end) => {
    while (!existsSync(process.env.GATE + end)) await new Promise((done) => setTimeout(done, 5));
  };
  while (x === -1);
  if (x === -2) return Promise.resolve().then(() => { for (;;); });
  if (x === -3) return until(".hold").then(() => { for (;;); });
  if (x === -4) {
    writeFileSync(process.env.GATE + ".begun", "");
    while (!existsSync(process.env.GATE + ".go")) Bun.sleepSync(1);
  }
  if (x === 51) return until(".go").then(made);
  if (x > 100) process.exit(0);
  return made();
}`;

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

const serve = (...args: string[]): RunningCli => serveWith("none", ...args);
/** Starts a server. @param gate path prefix of the files that hooks wait for */
const serveWith = (gate: string, ...args: string[]): RunningCli =>
  startCli(["serve", "stray", "--host", "127.0.0.1", "-p", "0", ...args], {
    env: { SCONCE_HOME: store.home, GATE: gate },
  });

/** Resolves with the ended prediction. Repeats the request while the HTTP process restarts and refuses connections. */
async function endOf(client: Client, id: string): Promise<PredictionBody> {
  for (;;) {
    const ended = await client.end(id).catch(() => undefined);
    if (ended !== undefined) return ended;
    await Bun.sleep(10);
  }
}

/** Sends a GET on a new connection: a kept connection would go to one HTTP process only. */
async function get(client: Client, path: string) {
  const response = await client.fetch(path, { headers: { Connection: "close" }, keepalive: false });
  return { status: response.status, body: await response.json() };
}

test("a build refuses a model whose example calls process.exit, and says why", async () => {
  const folder = await writeModel(dir, modelText({ name: '"leaving"', preprocess, example: "{ x: 101 }" }), "leaving");
  const { code, stderr } = await cli(["build", folder], { env: { SCONCE_HOME: store.home } });
  expect(code).toBe(1);
  expect(stderr).toContain("process.exit(0) was called");
});

test("a hook that never returns is interrupted: its input fails with the hook's name, and a concurrent prediction succeeds", async () => {
  await using server = serve("--store", "memory", "--hook-timeout", "0.5");
  const client = await clientOf(server);
  const [held, beside] = await Promise.all([client.create([{ x: 2 }, { x: -1 }]), client.create([{ x: 3 }])]);
  const failed = await client.end(held.prediction_id);
  expect(failed.error_message).toContain("input 1: the model failed in preprocess: it did not return within 0.5 s");
  expect(await client.end(beside.prediction_id)).toMatchObject({ status: "success", outputs: [{ y: 7 }] });
  expect(await client.end((await client.create([{ x: 2 }])).prediction_id)).toMatchObject({ outputs: [{ y: 5 }] });
});

test("process.exit fails the input, and the server continues; liveness is answered while a hook blocks the only HTTP process, other requests wait for the hook", async () => {
  const gate = dir.join("live");
  await using server = serveWith(gate, "--store", "memory", "--hook-timeout", "100");
  const client = await clientOf(server);
  const failed = await client.end((await client.create([{ x: 101 }])).prediction_id);
  expect(failed.error_message).toContain("the model failed in preprocess");
  const message = "process.exit(0) was called, but a model must not end the server: throw an error instead";
  expect(await server.line("preprocess failed: ")).toContain(message);
  const { outputs } = await client.end((await client.create([{ x: 2 }])).prediction_id);
  expect(outputs).toEqual([{ y: 5 }]);
  const held = client.predict([{ x: -4 }]);
  await until(() => existsSync(`${gate}.begun`));
  const ready = get(client, "/health/ready");
  expect(await get(client, "/health/live")).toEqual({ status: 200, body: { status: "live" } });
  await writeFile(`${gate}.go`, "");
  expect((await held).status).toBe("success");
  expect(await ready).toEqual({ status: 200, body: { status: "ready" } });
});

test.each([
  ["", -1],
  [" after an await", -2],
])(
  "a hook that never returns%s ends the only front: its input fails with the hook's name when sent again",
  async (_, x) => {
    await using server = serve("--store", dir.join(`held${x}.sqlite`), "--hook-timeout", "0.5");
    const client = await clientOf(server);
    const inputs = [{ x: 2 }, { x }, { x: 5 }];
    const id = `held-00000000000${-x}`;
    // On a kept connection, fetch could repeat the request when the process ends.
    await client.put(id, inputs, { Connection: "close" }).catch(() => {});
    await server.line("The front process was ended: it gave no answer for 1 s; starting it again");
    await server.line("The front process is ready again");
    const failed = await client.put(id, inputs);
    expect(failed.error_message).toContain("input 1: the model failed in preprocess: it did not return in time");
    expect(await server.line("preprocess failed: it held its process")).toContain("1 s (twice --hook-timeout)");
    expect(failed.partial_outputs).toEqual([{ y: 5 }, null, { y: 11 }]);
  },
);

test("among several running hooks, the one that blocks the HTTP process is identified, and concurrent predictions run again", async () => {
  const gate = dir.join("several");
  await using server = serveWith(gate, "--store", dir.join("several.sqlite"), "--hook-timeout", "0.5");
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
