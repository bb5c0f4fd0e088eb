/** A shadow is a build that gets copies of the predictions of another build, for comparison. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { differenceAt } from "../src/server/predictions/shadow.ts";
import { clientOf, type RunningCli } from "./helpers/cli.ts";
import type { Client, PredictionBody } from "./helpers/client.ts";
import { cliHere } from "./helpers/command-here.ts";
import { hold } from "./helpers/hold.ts";
import { modelText } from "./helpers/model-text.ts";
import { hasRedis, startRedis } from "./helpers/redis.ts";
import { until } from "./helpers/running.ts";
import { storeWith, type TestStore } from "./helpers/server.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";
import { buildVersion, serveOnLoopback } from "./helpers/versions.ts";

let dir: TempDir;
let store: TestStore;
let env: Readonly<Record<string, string>>;

/** The second output is an array, so that answers of the Open Inference Protocol have binary tensors. */
const list = `({ y }) => ({ y: y.data[0], list: tensor(Float32Array.of(y.data[0], 1000), [2]) })`;
const output = "z.object({ y: z.number(), list: ndarray(float32(2)) })";

const builds = {
  v1: { postprocess: list },
  // Version v3: as v1, but another build.
  v3: { postprocess: `/* another build */ ${list}` },
  // Version v2: outputs of small inputs differ from v1 by rounding, outputs of large inputs by more. Inputs below 0
  // fail.
  v2: {
    postprocess: `({ y }) => {
      const factor = y.data[0] < 50 ? 1.001 : 2;
      return { y: factor * y.data[0], list: tensor(Float32Array.of(factor * y.data[0], 1001.5), [2]) };
    }`,
    preprocess: `async ({ x }) => {
      // x = 1 is the model's example, which runs at the start and must not wait.
      if (process.env.GATE !== undefined && x !== 1) await fetch(process.env.GATE);
      if (x < 0) throw new Error("v2 takes no number below 0");
      return { x: tensor(Float32Array.of(x), []), steps: tensor(BigInt64Array.of(0n), []) };
    }`,
  },
};

beforeAll(async () => {
  dir = await tempDir();
  store = await storeWith("lab");
  env = { SCONCE_HOME: store.home };
  for (const [tag, change] of Object.entries(builds)) {
    const text = modelText({ name: '"ten"', output, ...change }).replace("image, pad", "image, ndarray, pad");
    await buildVersion(dir, text, tag, env);
  }
});

afterAll(async () => {
  await store[Symbol.asyncDispose]();
  await dir[Symbol.asyncDispose]();
});

const serve = (args: readonly string[], more: Readonly<Record<string, string>> = {}): RunningCli =>
  serveOnLoopback(args, { ...env, ...more });

const countsOf = async (client: Client) => {
  const of = (result: string) => client.metric(`sconce_shadow_predictions_total{model="ten:v2",result="${result}"}`);
  const [equal, different, failed, dropped] = await Promise.all(["equal", "different", "failed", "dropped"].map(of));
  return { equal, different, failed, dropped };
};

describe("serve ten:v1 --shadow v2", () => {
  let server: RunningCli;
  let client: Client;

  beforeAll(async () => {
    server = serve(["ten:v1", "--shadow", "v2"]);
    client = await clientOf(server);
  });

  afterAll(() => server[Symbol.asyncDispose]());

  test("answers with the outputs of v1, and compares the outputs of v2", async () => {
    const ends: PredictionBody[] = [];
    for (const x of [1, 2, 60, -1]) ends.push(await client.predict([{ x }]));
    expect(ends.map(({ outputs }) => outputs?.[0]?.y)).toEqual([3, 5, 121, -1]);
    expect(new Set(ends.map(({ model }) => model?.digest)).size).toBe(1);
    await until(async () => {
      const { equal = 0, different = 0, failed = 0 } = await countsOf(client);
      return equal + different + failed === 4;
    });
    expect(await countsOf(client)).toEqual({ equal: 2, different: 1, failed: 1, dropped: 0 });
    const different = await server.line("the shadow ten:v2 gives another output");
    expect(different).toContain(`prediction ${ends[2]?.prediction_id}`);
    expect(different).toContain("output 0/y: 242 in place of 121");
    const failed = await server.line("the shadow ten:v2 failed");
    expect(failed).toContain(`prediction ${ends[3]?.prediction_id}`);
    expect(failed).toContain("v2 takes no number below 0");
  });

  test("keeps no record of a copy", async () => {
    expect(await client.metric('sconce_predictions_total{model="ten:v2",status="success"}')).toBe(0);
    expect(await client.metric('sconce_retained_predictions{model="ten:v2"}')).toBe(0);
    expect(await client.metric('sconce_batches_total{model="ten:v2",cause="late"}')).toBeGreaterThanOrEqual(3);
  });

  test("compares the numbers in byte arrays, which the Open Inference Protocol requests", async () => {
    const before = await countsOf(client);
    const infer = async (x: number) => {
      const inputs = [{ name: "x", datatype: "FP64", shape: [1, 1], data: [x] }];
      const body = JSON.stringify({ inputs });
      const headers = { "Content-Type": "application/json" };
      return (await client.fetch("/v2/models/ten/infer", { method: "POST", headers, body })).json();
    };
    expect(await infer(3)).toMatchObject({
      outputs: [
        { name: "y", data: [7] },
        { name: "list", data: [7, 1000] },
      ],
    });
    await infer(70);
    await until(async () => (await countsOf(client)).different === (before.different ?? 0) + 1);
    expect((await countsOf(client)).equal).toBe((before.equal ?? 0) + 1);
  });

  test("copies no prediction that failed, no demo, and no prediction that was sent to the shadow", async () => {
    const before = await countsOf(client);
    const json = { "Content-Type": "application/json", Prefer: "wait" };
    await client.fetch("/demo", { method: "POST", headers: json, body: '[{"x": 1}]' });
    const own = await client.fetch("/models/ten:v2/predictions", { method: "POST", headers: json, body: '[{"x": 4}]' });
    expect(await own.json()).toMatchObject({ outputs: [{ y: 9 * 1.001 }] });
    await client.predict([{ x: 5 }]);
    await until(async () => (await countsOf(client)).equal === (before.equal ?? 0) + 1);
    expect(await countsOf(client)).toEqual({ ...before, equal: (before.equal ?? 0) + 1 });
  });

  test("lists v2 as a shadow, and drops copies while v2 is not loaded", async () => {
    const list = await (await client.fetch("/models")).json();
    expect(list).toMatchObject({ models: [{ name: "ten" }, { name: "ten:v2", shadow: true }] });
    await client.fetch("/v2/repository/models/ten:v2/unload", { method: "POST" });
    const before = await countsOf(client);
    await client.predict([{ x: 1 }]);
    expect(await countsOf(client)).toEqual({ ...before, dropped: 1 });
  });
});

test("a shadow that hangs delays no client, and copies beyond two batches are dropped", async () => {
  await using held = hold();
  await using server = serve(["ten:v1", "--shadow", "v2"], { GATE: held.url("gate") });
  const client = await clientOf(server);
  for (let x = 2; x < 22; x++) expect((await client.predict([{ x }])).outputs).toMatchObject([{ y: 2 * x + 1 }]);
  await held.arrived("gate");
  expect(await countsOf(client)).toEqual({ equal: 0, different: 0, failed: 0, dropped: 12 });
  held.release("gate");
  await until(async () => (await countsOf(client)).equal === 8);
});

test("a shadow gets copies from all versions that share the traffic", async () => {
  await using server = serve(["ten", ...sharing, "--fronts", "2"]);
  await copiesAll(await clientOf(server));
});

test.skipIf(!hasRedis)(
  `with --queue, versions share traffic, and the shadow of the replica that ran a prediction gets the copy${hasRedis ? "" : ": no redis-server here"}`,
  async () => {
    await using redis = await startRedis();
    await using server = serve(["ten", ...sharing, "--queue", redis.url]);
    await copiesAll(await clientOf(server));
  },
);

const sharing = ["--split", "v1=1,v3=1", "--shadow", "v2"];

async function copiesAll(client: Client): Promise<void> {
  const ids = Array.from({ length: 24 }, (_, i) => `c${i}`);
  const ends = [];
  for (const id of ids) ends.push(await client.predict([{ x: 1 }], { "X-Client-Id": id }));
  expect(new Set(ends.map(({ model }) => model?.digest)).size).toBe(2);
  await until(async () => {
    const { equal = 0, dropped = 0 } = await countsOf(client);
    return equal + dropped === ids.length;
  });
}

const faults: readonly [args: readonly string[], message: string][] = [
  [["ten:v1", "lab", "--shadow", "v2"], "v2 needs the name of its model, as digits:v2"],
  [["lab", "--shadow", "ten:v2"], "--shadow ten:v2 needs another build of ten among the models to serve"],
  [["ten:v2", "--shadow", "v2"], "--shadow v2 needs another build of ten among the models to serve"],
  [["ten:v1", "--shadow", "v2", "--keep-alive", "9"], "with --shadow all models stay loaded"],
  [["ten:v1", "--shadow", "v2", "--no-isolate"], "remove --no-isolate"],
];
test.each(faults)("%p is refused", async (args, message) => {
  const { code, stderr } = await cliHere(["serve", ...args, "-p", "0"], { env });
  expect(stderr).toContain(message);
  expect(code).toBe(2);
});

describe("outputs count as equal if they differ only by rounding", () => {
  const cases: readonly [expected: unknown, given: unknown, difference: string | undefined][] = [
    [{ a: 1.5 }, { a: 1.5 }, undefined],
    [{ a: 1.5 }, { a: 1.51 }, undefined],
    [{ a: 1.5 }, { a: 1.6 }, "/a: 1.6 in place of 1.5"],
    // In a list, differences are relative to the largest number.
    [[0.001, 100.5], [0.9, 100.5], undefined],
    [[0.001, 100.5], [1.1, 100.5], "/0: 1.1 in place of 0.001"],
    [0, 1e-7, undefined],
    [1000, 1001, ": 1001 in place of 1000"],
    [["a"], ["b"], "/0 has another value"],
    [{ "a/b": null }, { "a/b": 0 }, "/a~1b has another value"],
    [[1, 2], [1, 2, 3], " has other members"],
    [{ a: 1 }, { b: 1 }, " has other members"],
    [{ 0: 1 }, [1], " has another value"],
    [{ a: [[0.5, 2], [3.25]] }, { a: [[0.5, 2], [3.75]] }, "/a/1/0: 3.75 in place of 3.25"],
  ];
  test.each(cases)("%j and %j", (expected, given, difference) => {
    expect(differenceAt(expected, given)).toBe(difference as string);
  });
});
