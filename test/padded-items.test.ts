/**
 * Items with padded dimensions: how they are checked, and how they get their part of outputs that are as long as the
 * longest item.
 */
import { describe, expect, test } from "bun:test";
import { bool, float32, int64, pad, type Tensor, tensor } from "../src/author/tensor.ts";
import { copied } from "../src/author/tensor-memory.ts";
import type { Item } from "../src/engine/engine.ts";
import { itemCheck } from "../src/engine/item-check.ts";
import { openLocalEngine } from "../src/engine/remote/local-engine.ts";
import type { Rows } from "../src/engine/rows.ts";
import type { Runner } from "../src/engine/runner.ts";
import { info } from "./helpers/remote.ts";

describe("an item with padded dimensions", () => {
  const ids = (length: number) => tensor(new BigInt64Array(length), [length]);

  test("has a key without its only padded size, and with the range of each of several", () => {
    const check = itemCheck({ a: int64("free", pad("x", 0)), b: float32(pad("x", 0), pad("y", 0)) });
    const of = (x: number, y: number) =>
      check({ a: tensor(new BigInt64Array(5 * x), [5, x]), b: tensor(new Float32Array(x * y), [x, y]) });
    expect(Object.fromEntries(of(3, 2).padded)).toEqual({ x: 3, y: 2 });
    expect(of(100, 10).key).toBe(of(101, 11).key);
    expect(of(100, 10).key).not.toBe(of(10, 100).key);
    expect(itemCheck({ a: int64("free", pad("x", 0)) })({ a: tensor(new BigInt64Array(15), [5, 3]) }).key).toBe(
      "free=5",
    );
  });

  test("is copied when it is submitted, also from a Buffer", () => {
    const data = Buffer.from([1, 2]);
    const own = copied({ dtype: "uint8", shape: [2], data });
    data.fill(9);
    expect(own).toEqual(tensor(Uint8Array.of(1, 2), [2]));
  });

  test("without elements is refused if its sizes would make padding or outputs large", () => {
    const check = itemCheck({ mask: float32(pad("layers", 0), pad("bytes", 0)) });
    const empty = (layers: number) => ({ mask: tensor(new Float32Array(0), [layers, 0]) });
    expect(check(empty(2 ** 20)).tensors[0]?.data.length).toBe(0);
    expect(() => check(empty(0x60000000))).toThrow("an empty tensor of the shape [1610612736,0]");
  });

  test("is refused if a size is negative or not an integer", () => {
    const check = itemCheck({ x: float32("height", pad("width", 0)) });
    // Makes a tensor without `tensor`, which refuses such shapes.
    const made = (shape: number[], count: number): Tensor => ({
      dtype: "float32",
      shape,
      data: new Float32Array(count),
    });
    expect(() => check({ x: made([-1, -5], 5) })).toThrow("preprocess gave float32(-1, -5)");
    expect(() => check({ x: made([0.5, 10], 5) })).toThrow("preprocess gave float32(0.5, 10)");
  });

  test("is refused if sizes of the same name differ", () => {
    const check = itemCheck({ ids: int64(pad("tokens", 0)), mask: int64(pad("tokens", 0)) });
    expect(() => check({ ids: ids(3), mask: ids(4) })).toThrow(
      'input "mask": int64(pad tokens) was declared, preprocess gave two sizes for "tokens", 3 and 4',
    );
  });

  test("is refused if a mask is not bool but another dtype in the same array type; the error says how to fix it", () => {
    const check = itemCheck({ mask: bool(pad("tokens", 0)) });
    expect(() => check({ mask: tensor(Uint8Array.of(1, 1), [2]) })).toThrow(
      'input "mask": bool(pad tokens) was declared, preprocess gave uint8(2); a bool tensor is made with tensor(new Uint8Array(…), shape, "bool")',
    );
    expect(check({ mask: tensor(Uint8Array.of(1, 1), [2], "bool") }).padded.get("tokens")).toBe(2);
  });

  /** A runner with four outputs, whose padded dimensions are as long as the longest item of the batch. */
  const runner: Runner = {
    async run(items) {
      const longest = Math.max(...items.map(([first]) => first?.shape[0] ?? 0));
      const output = (shape: number[], value: (at: number) => number): Tensor => ({
        dtype: "float32",
        shape: [items.length, ...shape],
        data: Float32Array.from({ length: items.length * shape.reduce((a, b) => a * b, 1) }, (_, at) => value(at)),
      });
      return [
        output([longest, 2], (at) => at),
        output([2, longest], (at) => at),
        output([longest, longest], (at) => at),
        output([longest], (at) => at),
      ];
    },
    settle: () => {},
    setThreads: async () => {},
    dispose: async () => {},
  };

  test("gets padded outputs in its own size, whatever other items are in the batch", async () => {
    const { engine } = openLocalEngine<Item>({
      info,
      runners: [runner],
      inputs: { ids: int64(pad("tokens", 0)) },
      outputs: {
        each: float32(pad("tokens", 0), 2),
        across: float32(2, pad("tokens", 0)),
        grid: float32(pad("tokens", 0), pad("tokens", 0)),
        whole: float32("tokens"),
      },
      maxBatchSize: 8,
      maxQueueDelayMs: 0,
    });
    const lengths = [2, 3, 1];
    const rows = await new Promise<Rows[]>((resolve, reject) => {
      const done: Rows[] = [];
      engine.listener = {
        dispatched: () => {},
        finished: (_, row) => void (done.push(row) === lengths.length && resolve(done)),
        failed: (_, error) => reject(error),
      };
      for (const [index, length] of lengths.entries()) engine.submit({ lane: 1, index }, { ids: ids(length) });
    });
    const parts = rows.map((row) =>
      Object.values(row).map(({ shape, data }) => `${shape.join("x")}: ${Array.from(data, Number).join(" ")}`),
    );
    expect(parts).toEqual([
      ["2x2: 0 1 2 3", "2x2: 0 1 3 4", "2x2: 0 1 3 4", "3: 0 1 2"],
      ["3x2: 6 7 8 9 10 11", "2x3: 6 7 8 9 10 11", "3x3: 9 10 11 12 13 14 15 16 17", "3: 3 4 5"],
      ["1x2: 12 13", "2x1: 12 15", "1x1: 18", "3: 6 7 8"],
    ]);
  });
});
