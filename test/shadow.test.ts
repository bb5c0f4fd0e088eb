/** A shadow is a build that gets copies of the predictions of another build, for comparison. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { getPriority } from "node:os";
import { differenceAt } from "../src/server/predictions/shadow.ts";
import { clientOf, type RunningCli } from "./helpers/cli.ts";
import type { Client, PredictionBody } from "./helpers/client.ts";
import { cliHere } from "./helpers/command-here.ts";
import { inRole, slices, until } from "./helpers/running.ts";
import { storeWith, type TestStore } from "./helpers/server.ts";
import { buildShadowed, countsOf } from "./helpers/shadowed.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";
import { serveOnLoopback } from "./helpers/versions.ts";

let dir: TempDir;
let store: TestStore;
let env: Readonly<Record<string, string>>;

beforeAll(async () => {
  dir = await tempDir();
  store = await storeWith("lab");
  env = { SCONCE_HOME: store.home };
  await buildShadowed(dir, env);
});

afterAll(async () => {
  await store[Symbol.asyncDispose]();
  await dir[Symbol.asyncDispose]();
});

const serve = (args: readonly string[], more: Readonly<Record<string, string>> = {}): RunningCli =>
  serveOnLoopback(args, { ...env, ...more });

describe("serve ten:v1 --shadow v2", () => {
  let server: RunningCli;
  let client: Client;

  beforeAll(async () => {
    server = serve(["ten:v1", "--shadow", "v2"]);
    client = await clientOf(server);
  });

  afterAll(() => server[Symbol.asyncDispose]());

  test("gives the shadow a lower priority, and no short time slices", async () => {
    const engines = await inRole(server.pid, "engine");
    const own = getPriority();
    expect(engines.map((pid) => getPriority(pid)).toSorted((a, b) => a - b)).toEqual([own, Math.min(19, own + 15)]);
    const shadow = engines.find((pid) => getPriority(pid) > own) ?? 0;
    expect(slices(shadow)).not.toContain(100_000);
  });

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

  test("lists v2 as a shadow", async () => {
    const list = await (await client.fetch("/models")).json();
    expect(list).toMatchObject({ models: [{ name: "ten" }, { name: "ten:v2", shadow: true }] });
  });
});

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
