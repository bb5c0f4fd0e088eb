/**
 * Messages between processes ("frames") pass a socket unchanged, however the socket splits them and however full it
 * is.
 */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { arrayTypes, type DType, pad, type Tensor, type TensorSpecs } from "../src/author/tensor.ts";
import { SconceError } from "../src/base/errors.ts";
import { itemCheck } from "../src/engine/item-check.ts";
import {
  AHEAD_SHIFT,
  FrameBlocks,
  type FrameMemory,
  FrameReader,
  frameKinds,
  Outbox,
} from "../src/engine/remote/frame.ts";
import { ItemFrames, RowsFrames } from "../src/engine/remote/tensor-frames.ts";
import { isOwnFault } from "../src/server/stray-errors.ts";
import { until } from "./helpers/running.ts";
import { bytesOf } from "./helpers/tensors.ts";

/** A socket whose first writes accept only the numbers of bytes in `sizes`. Later writes accept everything. */
class SlowSocket {
  readonly #sizes: number[];
  readonly chunks: Uint8Array[] = [];

  constructor(sizes: readonly number[]) {
    this.#sizes = [...sizes];
  }

  write(bytes: Uint8Array, byteOffset: number, byteLength: number): number {
    const taken = Math.min(byteLength, this.#sizes.shift() ?? byteLength);
    if (taken > 0) this.chunks.push(bytes.slice(byteOffset, byteOffset + taken));
    return taken;
  }

  get bytes(): Uint8Array {
    return new Uint8Array(Buffer.concat(this.chunks));
  }
}

/** Feeds bytes to a frame reader in chunks of these sizes, and the rest in one chunk. */
function read(bytes: Uint8Array, sizes: readonly number[], handle: (memory: FrameMemory, at: number) => void): void {
  const reader = new FrameReader(handle);
  let begin = 0;
  for (const size of [...sizes, bytes.length]) {
    if (begin === bytes.length) break;
    reader.push(bytes.slice(begin, begin + size));
    begin = Math.min(bytes.length, begin + size);
  }
}

const cuts = fc.array(fc.integer({ min: 1, max: 300 }), { maxLength: 40 });

const dtypes = Object.keys(arrayTypes).filter((name): name is DType => name in arrayTypes);

function randomTensor(dtype: DType, shape: readonly number[]): Tensor {
  const data = new arrayTypes[dtype](shape.reduce((product, size) => product * size, 1));
  crypto.getRandomValues(new Uint8Array(data.buffer));
  return { dtype, shape, data };
}

function expectSame(got: readonly Tensor[], given: readonly Tensor[]): void {
  expect(got.map(({ dtype, shape }) => ({ dtype, shape }))).toEqual(
    given.map(({ dtype, shape }) => ({ dtype, shape: [...shape] })),
  );
  for (const [i, tensor] of given.entries()) expect(bytesOf((got[i] ?? tensor).data)).toEqual(bytesOf(tensor.data));
}

test("items with tensors of every dtype, with fixed, free and padded sizes, pass a socket unchanged", () => {
  const specs: TensorSpecs = Object.fromEntries(
    dtypes.flatMap((dtype) => [
      [`${dtype} fixed`, { dtype, dims: [3] }],
      [`${dtype} open`, { dtype, dims: ["n", 2, pad("p", 0)] }],
    ]),
  );
  const items = fc.array(
    fc.record({ n: fc.nat(4), p: fc.nat(5), lane: fc.nat(9), ahead: fc.nat(70_000), isSeparate: fc.boolean() }),
    {
      minLength: 1,
      maxLength: 6,
    },
  );
  const check = itemCheck(specs);
  fc.assert(
    fc.property(items, cuts, cuts, (given, writes, reads) => {
      const [frames, blocks, socket] = [new ItemFrames(specs), new FrameBlocks(), new SlowSocket(writes)];
      const outbox = new Outbox(socket);
      const sent = given.map(({ n, p, lane, ahead, isSeparate }, number) => {
        const tensors = dtypes.flatMap((dtype) => [randomTensor(dtype, [3]), randomTensor(dtype, [n, 2, p])]);
        outbox.add(frames.write(blocks, { number, lane, ahead, isSeparate }, tensors));
        return check(
          Object.fromEntries(Object.keys(specs).map((name, i) => [name, tensors[i] ?? randomTensor("bool", [])])),
        );
      });
      outbox.flush();
      for (let i = 0; i < writes.length; i++) outbox.drained();
      let count = 0;
      read(socket.bytes, reads, (memory, at) => {
        const [expected, got] = [sent[count], frames.read(memory, at)];
        if (expected === undefined) throw new Error("more items than were sent");
        expectSame(got.tensors, expected.tensors);
        const { key, padded } = expected;
        expect(got).toMatchObject({ key, padded });
        expect(memory.words[at / 4 + 2]).toBe(count);
        expect(memory.words[at / 4 + 3]).toBe(given[count]?.lane ?? -1);
        expect((memory.words[at / 4 + 1] ?? 0) >>> AHEAD_SHIFT).toBe(Math.min(given[count]?.ahead ?? -1, 65_535));
        count += 1;
      });
      expect(count).toBe(given.length);
    }),
    { numRuns: 100 },
  );
});

test("rows of outputs pass in one frame or in parts, copied or not", () => {
  const specs: TensorSpecs = Object.fromEntries(dtypes.map((dtype) => [dtype, { dtype, dims: [2, "n"] }]));
  const frames = new RowsFrames(specs);
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 8 }), fc.constantFrom(0, 1, 3, 500), cuts, (rows, n, reads) => {
      const outputs = dtypes.map((dtype) => randomTensor(dtype, [rows, 2, n]));
      const [blocks, socket] = [new FrameBlocks(), new SlowSocket([])];
      const outbox = new Outbox(socket);
      const numbers = Array.from({ length: rows }, (_, i) => 100 + i);
      const odd = numbers.flatMap((_, i) => (i % 2 === 1 || i > 4 ? [i] : []));
      frames.add(outbox, blocks, { numbers, places: undefined, outputs, observation: undefined });
      const observation = { size: rows, waitMs: 0.25, runMs: 1e9, cause: "delay" } as const;
      frames.add(outbox, blocks, { numbers: odd, places: odd, outputs, observation });
      outbox.flush();
      const got: Tensor[][] = [];
      read(socket.bytes, reads, (memory, at) => void got.push(frames.outputsAt(memory, at)));
      expectSame(got[0] ?? [], outputs);
      const parts = outputs.map(({ dtype, data }) => {
        const part = new arrayTypes[dtype](odd.length * 2 * n);
        const size = data.byteLength / rows;
        for (const [i, place] of odd.entries()) {
          bytesOf(part).set(new Uint8Array(data.buffer, place * size, size), i * size);
        }
        return { dtype, shape: [odd.length, 2, n], data: part };
      });
      expectSame(got[1] ?? [], parts);
    }),
    { numRuns: 100 },
  );
});

test("memory of frames is freed with the last of them", async () => {
  const blocks = new FrameBlocks();
  const [kept, freed] = [
    blocks.begin(1 << 15, frameKinds.submit),
    new WeakRef(blocks.begin(1 << 20, frameKinds.submit).memory.buffer),
  ];
  for (let i = 0; i < 8; i++) blocks.begin(1 << 15, frameKinds.submit);
  await until(() => {
    Bun.gc(true);
    return freed.deref() === undefined;
  });
  expect(kept.memory.words[kept.from / 4]).toBe(1 << 12);
});

test("a frame whose handler fails is reported, and the frames behind it are read", () => {
  const [blocks, socket, faults] = [new FrameBlocks(), new SlowSocket([]), [] as unknown[]];
  const outbox = new Outbox(socket);
  for (let i = 0; i < 4; i++) outbox.add(blocks.words(frameKinds.cancel, [i]));
  outbox.flush();
  const numbers: number[] = [];
  const reader = new FrameReader(
    ({ words }, at) => {
      const number = words[at / 4 + 2] ?? 0;
      if (number % 2 === 1) throw new SconceError("run_failed", `${number}`);
      numbers.push(number);
    },
    (error) => faults.push(error),
  );
  reader.push(socket.bytes.slice(0, 37));
  reader.push(socket.bytes.slice(37));
  expect([numbers, faults]).toEqual([[0, 2], [1, 3].map((number) => new SconceError("run_failed", `${number}`))]);
});

test("bytes that are no frame are an error of sconce, which ends the process", () => {
  const reader = new FrameReader(() => {});
  let error: unknown;
  try {
    reader.push(new Uint8Array(64));
  } catch (thrown) {
    error = thrown;
  }
  expect(isOwnFault(error)).toBe(true);
});
