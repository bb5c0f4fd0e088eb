/**
 * A program with a dynamic batch dimension is compiled for any number of rows, and for the sizes that it declares,
 * even if its example has few rows.
 */
import { expect, test } from "bun:test";
import { dirname, join } from "node:path";
import { float32 } from "../../src/author/tensor.ts";
import { compiledPath } from "../../src/cli/build/plain/compiled-program.ts";
import { ModelStore } from "../../src/package/store/store.ts";
import { cli } from "../helpers/cli.ts";
import { exactPrograms, fewRows } from "../helpers/exports.ts";
import { failure } from "../helpers/failure.ts";
import { fixture, tempDir } from "../helpers/fixture.ts";
import { fastCompilation } from "../helpers/script-runner.ts";
import { sessions } from "../helpers/sessions.ts";

const [folder, exact] = await Promise.all([fewRows(), exactPrograms()]);
const dir = fixture(tempDir);
const open = sessions();

function compile(file: string) {
  // Compiling needs torch. Only the command line from the sources finds the torch of the checkout.
  return cli(["build", join(folder, file), "--aot"], { env: env(), isSource: true });
}

function env() {
  return {
    SCONCE_HOME: dir.path,
    // A cache beside the test's weights, which later runs use again: compiling takes long.
    SCONCE_CACHE_DIR: join(dirname(folder), "few-rows-cache"),
    ...fastCompilation,
  };
}

test("a program whose example has two rows is compiled for batches of 32", async () => {
  const { code, stderr } = await compile("few.pt2");
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.not.stringContaining("at most") });
  expect((await new ModelStore(dir.path).resolve("few")).config.batchSize).toBe(32);
}, 300_000);

test("a program with arguments that are no tensors runs compiled; a size beyond the declared range is refused by name", async () => {
  expect(await compile("widths.pt2")).toMatchObject({ code: 0 });
  const packaged = await new ModelStore(dir.path).resolve("widths");
  const specs = {
    inputs: { x: float32("width"), y: float32("length") },
    outputs: { output0: float32("width"), output1: float32() },
  };
  const path = packaged.layer("widths.pt2").path;
  const session = await open({ path, ...specs });
  const item = (x: number[], y: number[]) =>
    [x, y].map((values) => ({ dtype: "float32" as const, shape: [values.length], data: Float32Array.from(values) }));
  const [doubled, mean] = await session.run([item([3], [1, 2])]);
  expect([doubled?.data, mean?.data]).toEqual([Float32Array.of(6), Float32Array.of(1.5)]);
  expect(await failure(session.run([item(Array(21).fill(0), [5, 6])]))).toBe(
    "run_failed: x: width must be at most 20, received 21",
  );
}, 300_000);

test("a scalar tensor of an integer is float32 in a compiled program, as in PyTorch", async () => {
  // The build refuses a constant output, but only after it has compiled the package.
  const { code, stderr } = await compile("constant.pt2");
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining("no batch dimension") });
  process.env.SCONCE_CACHE_DIR = env().SCONCE_CACHE_DIR;
  const path = await compiledPath(join(folder, "constant.pt2")).finally(() => delete process.env.SCONCE_CACHE_DIR);
  const session = await open({ path });
  const x = { dtype: "float32" as const, shape: [3, 2], data: new Float32Array(6) };
  expect(await session.call("forward", [x])).toEqual([
    { dtype: "float32", shape: [], data: Float32Array.of(1) },
    { dtype: "float32", shape: [], data: Float32Array.of(-1) },
  ]);
}, 300_000);

test("a call whose arguments differ in their first size is not taken for a batch, so it is not padded", async () => {
  const packaged = await new ModelStore(dir.path).resolve("widths");
  const session = await open({ path: packaged.layer("widths.pt2").path });
  const x = { dtype: "float32" as const, shape: [3, 1], data: Float32Array.of(1, 2, 3) };
  const y = { dtype: "float32" as const, shape: [2, 2], data: Float32Array.of(1, 2, 3, 4) };
  expect(await session.call("forward", [x, y])).toMatchObject([
    { shape: [3, 1], data: Float32Array.of(2, 4, 6) },
    { shape: [2], data: Float32Array.of(1.5, 3.5) },
  ]);
}, 60_000);

test("a size that the compiled code does not support is refused by the input's name", async () => {
  const specs = { inputs: { x: float32("width") }, outputs: { y: float32("width") } };
  const path = join(folder, "sum-compiled.pt2");
  const session = await open({ path, ...specs });
  expect(await failure(session.run([[{ dtype: "float32", shape: [1], data: Float32Array.of(3) }]]))).toBe(
    'run_failed: input "x" is not what the package was compiled for: dim value is too small at 1, expected it to be >= 2, but got: 1',
  );
}, 60_000);

test("a call with fewer rows than the compiled code needs is padded only if padding changes no result", async () => {
  const call = async (path: string) => {
    const session = await open({ path });
    return await session.call("forward", [{ dtype: "float32", shape: [1, 2], data: Float32Array.of(3, 4) }]);
  };
  expect(await call(join(exact, "even-compiled.pt2"))).toMatchObject({ shape: [1, 2], data: Float32Array.of(6, 8) });
  expect(await failure(call(join(folder, "sum-compiled.pt2")))).toBe(
    "run_failed: forward got tensors of 1 rows, and the package was compiled for at least 2: its results are not one per row, so the tensors cannot be filled up",
  );
}, 60_000);
