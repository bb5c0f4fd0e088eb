/** The `device` of a model: valid values, and what each means on machines with 0 or more GPUs. */
import { beforeAll, describe, expect, test } from "bun:test";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { deviceText } from "../src/author/device.ts";
import { float32, type Tensor, tensor } from "../src/author/tensor.ts";
import { resolveDevices } from "../src/engine/device.ts";
import { openSession } from "../src/engine/native/binding.ts";
import { type OpenOptions, openRunners } from "../src/engine/open-runners.ts";
import { warmUp } from "../src/engine/warm-up.ts";
import { failure } from "./helpers/failure.ts";
import { tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { withMetadata } from "./helpers/rewritten-package.ts";
import { storeWith } from "./helpers/server.ts";
import { fixtures } from "./helpers/weights.ts";

describe("the device setting", () => {
  test.each(["auto", "cpu", "cuda", "cuda:0", "cuda:12", "cuda:all", "cuda:0,cuda:1", "cuda,cuda:1"])(
    "may be %s",
    (asked) => {
      expect(deviceText.safeParse(asked).error).toBeUndefined();
    },
  );

  test.each([
    ["cpu,cpu", "must name cpu once; to run several copies on one device, use --instances"],
    ["cuda:1,cuda:01", "must name cuda:1 once; to run several copies on one device, use --instances"],
    ["cuda,cuda:0", "must name cuda:0 once; to run several copies on one device, use --instances"],
    ...[
      "",
      "tpu",
      "cpu:0",
      "cuda:",
      "cuda:x",
      "cuda:0,",
      "cpu,cuda:0",
      "auto,cpu",
      "cuda:all,cuda:0",
      "cuda:0, cuda:1",
    ].map(
      (asked) => [asked, 'must be "auto", "cpu", "cuda", "cuda:N", "cuda:all", or GPUs as in "cuda:0,cuda:1"'] as const,
    ),
  ])("may not be %j", (asked, fault) => {
    expect(deviceText.safeParse(asked).error?.issues.map(({ message }) => message)).toEqual([fault]);
  });

  test.each([
    ["auto", 0, ["cpu"]],
    ["auto", 2, ["cuda:0"]],
    ["cpu", 2, ["cpu"]],
    ["cuda", 2, ["cuda:0"]],
    ["cuda:01", 2, ["cuda:1"]],
    ["cuda:all", 3, ["cuda:0", "cuda:1", "cuda:2"]],
    ["cuda:2,cuda", 3, ["cuda:2", "cuda:0"]],
  ])("%s on a machine with %d GPUs is %j", async (asked, gpus, devices) => {
    expect(await resolveDevices({ operator: asked }, () => gpus)).toEqual(devices);
  });

  test.each([
    ["cuda", 0, "no device cuda:0: there is no usable GPU here; use --device cpu or auto"],
    ["cuda:all", 0, "no device cuda:all: there is no usable GPU here; use --device cpu or auto"],
    ["cuda:2", 1, "no device cuda:2: the GPUs here are cuda:0; use --device cpu or auto"],
    ["cuda:1,cuda:2,cuda:3", 2, "no device cuda:2, cuda:3: the GPUs here are cuda:0, cuda:1; use --device cpu or auto"],
  ])("%s on a machine with %d GPUs is refused in one line that lists the devices", async (asked, gpus, line) => {
    expect(await failure(resolveDevices({ operator: asked }, () => gpus))).toBe(`device_unavailable: ${line}`);
  });
});

test("compiled weights for the CPU run on the CPU by default, on machines with GPUs too", async () => {
  const path = (name: string) => weights.get(name).path;
  const weights = await fixtures();
  const compiled = path("aotinductor float32 one tuple");
  const on = (operator: string | undefined, ...paths: string[]) =>
    resolveDevices({ operator, weights: paths }, () => 1);
  expect(await on(undefined, compiled)).toEqual(["cpu"]);
  expect(await on("auto", path("network"), compiled)).toEqual(["cpu"]);
  expect(await on("cuda", compiled)).toEqual(["cuda:0"]);
  expect(await on(undefined, path("network"))).toEqual(["cuda:0"]);
  expect(await on(undefined, "no-such-file.pt2")).toEqual(["cuda:0"]);
  await using folder = await tempDir();
  const forGpu = folder.join("gpu.pt2");
  await writeFile(forGpu, withMetadata(await readFile(compiled), { AOTI_DEVICE_KEY: "cuda" }));
  expect(await on(undefined, forGpu)).toEqual(["cuda:0"]);
});

test("for a GPU are refused on the CPU in one line with the fix", async () => {
  await using folder = await tempDir();
  const { path, inputs, outputs } = (await fixtures()).get("aotinductor float32 one tuple");
  const other = join(folder.path, "gpu.pt2");
  await writeFile(other, withMetadata(await readFile(path), { AOTI_DEVICE_KEY: "cuda" }));
  expect(await failure(openSession({ path: other, device: "cpu", threads: 1, inputs, outputs }))).toBe(
    "weights_invalid: the package was compiled for cuda, the device is cpu: compile it for that one, or run it on --device cuda",
  );
});

describe("runners on several devices", () => {
  let options: Omit<OpenOptions, "devices">;
  const item = [tensor(Float32Array.of(1, 2), [2])];

  beforeAll(async () => {
    const x = float32(2);
    const path = (await fixtures()).path("identity.pt");
    options = {
      weights: { model: path },
      operators: [],
      predict: undefined,
      inputs: { x },
      outputs: { y: x },
      threads: 1,
      instances: 2,
    };
  }, 600_000);

  test("have their own weights on each device, and all run", async () => {
    // `openRunners` treats the two equal entries as two devices.
    const runners = await openRunners({ ...options, devices: ["cpu", "cpu"] });
    expect(runners).toHaveLength(4);
    for (const runner of runners) {
      const [y] = await runner.run([item, item]);
      expect(y?.data).toEqual(Float32Array.of(1, 2, 1, 2));
    }
    await Promise.all(runners.map((runner) => runner.dispose()));
  });

  test("are not created if a device is missing; the error names it", async () => {
    const opening = openRunners({ ...options, devices: ["cpu", "cuda:98"] });
    expect(await failure(opening)).toMatch(/^device_unavailable: .*cuda:98/);
  });
});

test("a GPU warms up with batches of 1, 2, 4, … up to a full batch, the CPU with a full batch only", async () => {
  const sizes: number[] = [];
  const runner = {
    async run(items: readonly (readonly Tensor[])[]) {
      if (sizes.at(-1) !== items.length) sizes.push(items.length);
      return [];
    },
    settle() {},
    async setThreads() {},
    async dispose() {},
  };
  const options = { runners: [runner], inputs: { x: float32(2) }, item: undefined, maxBatchSize: 24, threads: 1 };
  await warmUp({ ...options, everySize: true });
  expect(sizes.splice(0)).toEqual([1, 2, 4, 8, 16, 24]);
  await warmUp(options);
  expect(sizes.splice(0)).toEqual([1, 24]);
  await warmUp({ ...options, maxBatchSize: 1, everySize: true });
  expect(sizes).toEqual([1]);
});

test("the operator's device takes precedence over the author's; the default is auto", async () => {
  expect(await resolveDevices({ operator: "cpu", author: "cuda" }, () => 1)).toEqual(["cpu"]);
  expect(await resolveDevices({ author: "cuda" }, () => 1)).toEqual(["cuda:0"]);
  expect(await resolveDevices({}, () => 1)).toEqual(["cuda:0"]);
});

test("serve refuses a missing device in one line, whether the operator or the author set it; the model still builds", async () => {
  await using dir = await tempDir();
  await using store = await storeWith();
  // SCONCE_DEVICE of the machine must not set the device.
  const env = { SCONCE_DEVICE: "" };
  const built = await store.cliHere(["build", await writeModel(dir, modelText({ device: '"cuda:98"' }))], { env });
  expect(built.code).toBe(0);
  expect(built.stderr).toContain(
    "The model declares the device cuda:98, which this machine does not have: it is tried on another",
  );
  const serve = (...args: string[]) =>
    store.cli(["serve", "small", "--host", "127.0.0.1", "-p", "0", "--log-level", "error", ...args], { env });
  const own = await serve();
  expect(own.stderr).toMatch(
    /^sconce: no device cuda:98, which the model declares: the.+; use .*--device cpu or auto\n$/,
  );
  expect(own.code).toBe(1);
  const operators = await serve("--device", "cuda:99");
  expect(operators.stderr).toMatch(/^sconce: no device cuda:99: there .+; use .*--device cpu or auto\n$/);
  expect(operators.code).toBe(1);
});
