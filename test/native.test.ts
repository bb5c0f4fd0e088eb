/** A session gives the values of PyTorch. */
import { describe, expect, test } from "bun:test";
import { copyFile, readFile } from "node:fs/promises";
import { float32, type Tensor } from "../src/author/tensor.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { withCode } from "./helpers/rewritten-package.ts";
import { sessions } from "./helpers/sessions.ts";
import { closeWithin, filled, rowOf } from "./helpers/tensors.ts";
import { fixtures } from "./helpers/weights.ts";

const made = fixture(fixtures, 600_000);

const open = sessions();

const expectClose = closeWithin(1e-5);

const combinations = ["float32", "int64", "uint8"].flatMap((dtype) =>
  ["one tensor", "one tuple", "one list", "one dict", "several tensor", "several dict"].map(
    (form) => `torchscript ${dtype} ${form}`,
  ),
);
test.each([...combinations, "aotinductor float32 one tuple"])(
  "%s has PyTorch's values, in one batch and alone",
  async (name) => {
    const fixture = made.get(name);
    const opened = await open(fixture);
    expectClose(await opened.run(fixture.items), fixture.expected);
    for (const i of [0, 17, 63]) {
      const item = fixture.items[i] ?? [];
      expectClose(await opened.run([item]), rowOf(fixture.expected, i));
    }
  },
);

test("a package that returns a list has PyTorch's values, like a package that returns a tuple", async () => {
  const fixture = made.get("aotinductor float32 one tuple");
  await using dir = await tempDir();
  const path = dir.join("list.pt2");
  // The output spec as torch.export writes it. An additional blank keeps the length when "tuple" becomes "list".
  const spec = (type: string) => `[1, {"type":${type}, "context": "null", "children_spec": [{"type": null`;
  await Bun.write(path, withCode(await readFile(fixture.path), spec(' "builtins.tuple"'), spec('  "builtins.list"')));
  const opened = await open({ ...fixture, path });
  expectClose(await opened.run(fixture.items), fixture.expected);
});

test("inputs are matched by name, even if the order of forward's arguments is another", async () => {
  const fixture = made.get("torchscript float32 several tensor");
  const inputs = Object.fromEntries(Object.entries(fixture.inputs).reverse());
  const opened = await open({ ...fixture, inputs });
  expectClose(await opened.run(fixture.items.map((item) => item.toReversed())), fixture.expected);
});

test("outputs of a dict and of a NamedTuple are matched by name", async () => {
  const fixture = made.get("torchscript int64 several dict");
  const outputs = Object.fromEntries(Object.entries(fixture.outputs).reverse());
  const opened = await open({ ...fixture, outputs });
  expectClose(await opened.run(fixture.items), fixture.expected.toReversed());

  const named = await open({
    path: made.path("namedresults.pt"),
    inputs: { x: float32() },
    outputs: { high: float32(), low: float32() },
  });
  const [high, low] = await named.run([[{ dtype: "float32", shape: [], data: Float32Array.of(5) }]]);
  expect([high?.data[0], low?.data[0]]).toEqual([6, 4]);
});

test("arguments with a default value may be declared or left out", async () => {
  const path = made.path("defaults.pt");
  const short = await open({ path, inputs: { x: float32() }, outputs: { y: float32() } });
  expect((await short.run([[filled(2)]]))[0]?.data).toEqual(Float32Array.of(6));
  const long = await open({ path, inputs: { offset: float32(), x: float32() }, outputs: { y: float32() } });
  expect((await long.run([[filled(100), filled(2)]]))[0]?.data).toEqual(Float32Array.of(106));
});

describe("shapes", () => {
  test("shorter items are padded with the declared value to the longest of their batch", async () => {
    const fixture = made.get("tokens");
    const opened = await open({
      path: fixture.path,
      inputs: {
        ids: { dtype: "int64", dims: [{ name: "tokens", value: 9 }] },
        mask: { dtype: "float32", dims: [{ name: "tokens", value: 0 }] },
      },
      outputs: { mean: float32(4), each: float32("tokens", 4), ids: { dtype: "int64", dims: ["tokens"] } },
    });
    const lengths = [3, 5, 1];
    const cut = fixture.items.map((item, i) =>
      item.map((tensor) => ({ ...tensor, shape: [lengths[i] ?? 0], data: tensor.data.slice(0, lengths[i]) })),
    );
    const [each, mean, ids] = fixture.expected;
    if (each === undefined || mean === undefined || ids === undefined) throw new Error("three outputs");
    expectClose(await opened.run(cut), [mean, each, ids]);
    // The mean is over real tokens, so it is the same without padding. A batch of one has no padding.
    const [alone, , unpadded] = await opened.run(cut.slice(2));
    if (alone === undefined) throw new Error("three outputs");
    expectClose([alone], rowOf([mean], 2));
    expect(unpadded?.shape).toEqual([1, 1]);
  });

  test("free sizes may differ between batches", async () => {
    const opened = await open({
      path: made.path("area.pt"),
      inputs: { image: float32(1, "height", "width") },
      outputs: { mean: float32(1) },
    });
    for (const [height, width] of [
      [2, 3],
      [4, 1],
    ] as const) {
      const data = Float32Array.from({ length: height * width }, (_, i) => i);
      const [mean] = await opened.run([[{ dtype: "float32", shape: [1, height, width], data }]]);
      expect(mean?.data[0]).toBeCloseTo((height * width - 1) / 2, 5);
    }
  });

  test("an item without elements runs", async () => {
    const opened = await open({
      path: made.path("identity.pt"),
      inputs: { x: float32("n", 2) },
      outputs: { y: float32("n", 2) },
    });
    const [y] = await opened.run([[{ dtype: "float32", shape: [0, 2], data: new Float32Array() }]]);
    expect(y).toEqual({ dtype: "float32", shape: [1, 0, 2], data: new Float32Array() });
  });
});

describe("results", () => {
  test("of large outputs keep their values after later batches", async () => {
    const opened = await open({
      path: made.path("large.pt"),
      inputs: { x: float32() },
      outputs: { y: float32(100_000) },
    });
    const results = await Promise.all([1, 2, 3, 4, 5].map((value) => opened.run([[filled(value)], [filled(-value)]])));
    Bun.gc(true);
    for (const [i, [y]] of results.entries()) {
      expect(y?.data[99_999]).toBe(99_999 + i + 1);
      expect(y?.data[100_000]).toBe(-i - 1);
    }
  });

  test("may be written to, which changes neither the weights nor other results", async () => {
    const constant = await open({
      path: made.path("constant.pt"),
      inputs: { x: float32() },
      outputs: { rows: float32(100_000) },
    });
    const twice = await open({
      path: made.path("twice.pt"),
      inputs: { x: float32(100_000) },
      outputs: { a: float32(100_000), b: float32(100_000) },
    });
    for (let round = 0; round < 2; round++) {
      const [rows] = await constant.run([[filled(1)], [filled(2)]]);
      expect(rows?.data[5]).toBe(5);
      rows?.data.fill(0 as never);
      const big: Tensor = { dtype: "float32", shape: [100_000], data: new Float32Array(100_000).fill(1) };
      const [a, b] = await twice.run([[big]]);
      a?.data.fill(0 as never);
      expect(b?.data[0]).toBe(2);
    }
  });
});

test("weights are recognized by their content, whatever the file's name", async () => {
  await using dir = await tempDir();
  for (const format of ["torchscript", "aotinductor"] as const) {
    const fixture = made.get(`${format} float32 one tuple`);
    const path = dir.join("0123456789abcdef".repeat(4));
    await copyFile(fixture.path, path);
    const opened = await open({ ...fixture, path });
    expectClose(await opened.run(fixture.items), fixture.expected);
  }
});

test("a package that links libtorch.so, as packages of GPU builds do, runs without that file", async () => {
  const fixture = made.get("aotinductor float32 one tuple");
  await using dir = await tempDir();
  const path = dir.join("asking.pt2");
  await Bun.write(path, withCode(await readFile(fixture.path), "libtorch_cpu.so\0", "libtorch.so\0\0\0\0\0"));
  const opened = await open({ ...fixture, path });
  expectClose(await opened.run(fixture.items), fixture.expected);
});

test("settle() reports an ended batch at once; otherwise the event loop reports it", async () => {
  const fixture = made.get("network");
  const opened = await open(fixture);
  const isTold = async (settle: () => void, withinMs: number) => {
    let told = false;
    const batch = opened.run(fixture.items).then(() => {
      told = true;
    });
    const end = performance.now() + withinMs;
    // Awaits only promises, so the event loop does not turn.
    for (; !told && performance.now() < end; await Promise.resolve()) settle();
    const was = told;
    await batch;
    return was;
  };
  expect(await isTold(() => {}, 200)).toBe(false);
  expect(await isTold(() => opened.settle(), 20_000)).toBe(true);
});
