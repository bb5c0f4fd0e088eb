/** Frames with tensors: an item on its way to the engine process, and the outputs of a batch on their way back. */
import { arrayTypes, countOf, type Dim, type DType, type Tensor, type TensorSpecs } from "../../author/tensor.ts";
import { ALIGNMENT, aligned, setAt, type TensorMemory } from "../../author/tensor-memory.ts";
import { batchCauses } from "../../base/labels.ts";
import type { BatchRun, Item } from "../engine.ts";
import { type CheckedItem, fixedKey, type Sizes, shapeKey } from "../item-check.ts";
import {
  AHEAD_SHIFT,
  BLOCK_BYTES,
  type Frame,
  type FrameBlocks,
  type FrameMemory,
  frameKinds,
  IS_SEPARATE,
  IS_SHARED,
  MAX_AHEAD,
  type Outbox,
} from "./frame.ts";

interface Plan {
  readonly dtype: DType;
  readonly dims: readonly Dim[];
  /** Number of dimensions whose size differs between items. */
  readonly open: number;
  /** The shape if all sizes are fixed; otherwise undefined. */
  readonly shape: readonly number[] | undefined;
  readonly count: number;
}

/** Bytes of the frame's first four words. */
const HEAD_BYTES = 16;

export class ItemFrames {
  readonly #plans: readonly Plan[];
  /** Bytes before the tensors: the first words and the sizes. */
  readonly #headBytes: number;
  readonly #isFixed: boolean;

  constructor(inputs: TensorSpecs) {
    this.#plans = Object.values(inputs).map(({ dtype, dims }) => {
      const fixed = dims.filter((dim) => typeof dim === "number");
      const open = dims.length - fixed.length;
      const count = countOf(fixed);
      return { dtype, dims, open, shape: open === 0 ? fixed : undefined, count };
    });
    const open = this.#plans.reduce((sum, plan) => sum + plan.open, 0);
    this.#headBytes = aligned(HEAD_BYTES + 4 * open);
    this.#isFixed = open === 0;
  }

  bytesOf(tensors: readonly Tensor[]): number {
    let bytes = this.#headBytes;
    for (const { data } of tensors) bytes += aligned(data.byteLength);
    return bytes;
  }

  /**
   * Copies an item into a new frame.
   * @param shared memory that gets the tensors, from `sharedAt` on; undefined to put them into the frame
   */
  write(
    blocks: FrameBlocks,
    item: Omit<Item, "index">,
    tensors: readonly Tensor[],
    shared?: TensorMemory,
    sharedAt = 0,
  ): Frame {
    const flags = (item.isSeparate ? IS_SEPARATE : 0) | (shared ? IS_SHARED : 0);
    const kind = frameKinds.submit | flags | (Math.min(item.ahead ?? 0, MAX_AHEAD) << AHEAD_SHIFT);
    const frame = blocks.begin(shared === undefined ? this.bytesOf(tensors) : this.#headBytes + ALIGNMENT, kind);
    const { words } = frame.memory;
    const inFrame = frame.from + this.#headBytes;
    if (shared !== undefined) words[inFrame / 4] = sharedAt;
    const memory = shared ?? frame.memory;
    let offset = shared === undefined ? inFrame : sharedAt;
    let word = frame.from / 4;
    words[word + 2] = item.number ?? 0;
    words[word + 3] = item.lane;
    word += HEAD_BYTES / 4;
    for (let i = 0; i < tensors.length; i++) {
      const plan = this.#plans[i];
      const tensor = tensors[i];
      if (plan === undefined || tensor === undefined) continue;
      const { shape, data } = tensor;
      if (plan.shape === undefined) {
        for (let dim = 0; dim < shape.length; dim++) {
          if (typeof plan.dims[dim] !== "number") words[word++] = shape[dim] ?? 0;
        }
      }
      setAt(memory[plan.dtype], data, offset / data.BYTES_PER_ELEMENT);
      offset += aligned(data.byteLength);
    }
    return frame;
  }

  /** Reads an item. The tensors are views of the frame or of shared memory. */
  read(memory: FrameMemory, at: number, shared?: ArrayBuffer): CheckedItem {
    const inFrame = at + this.#headBytes;
    const isShared = ((memory.words[at / 4 + 1] ?? 0) & IS_SHARED) !== 0;
    if (isShared && shared === undefined) throw new RangeError("an item lies in memory that is not shared");
    const buffer = (isShared ? shared : undefined) ?? memory.buffer;
    const sizes: Sizes | undefined = this.#isFixed ? undefined : { free: new Map(), padded: new Map() };
    const tensors: Tensor[] = [];
    let word = (at + HEAD_BYTES) / 4;
    let offset = isShared ? (memory.words[inFrame / 4] ?? 0) : memory.byteOffset + inFrame;
    for (let i = 0; i < this.#plans.length; i++) {
      const plan = this.#plans[i];
      if (plan === undefined) continue;
      let { shape } = plan;
      if (shape === undefined) {
        shape = readShape(plan.dims, memory.words, word, sizes);
        word += plan.open;
      }
      const count = plan.shape === undefined ? countOf(shape) : plan.count;
      const data = new arrayTypes[plan.dtype](buffer, offset, count);
      tensors.push({ dtype: plan.dtype, shape, data });
      offset += aligned(data.byteLength);
    }
    const { key, padded } = sizes === undefined ? fixedKey : shapeKey(sizes);
    return { tensors, key, padded };
  }
}

/** Reads a tensor's shape. Sizes that are not fixed come from the frame, and are added to `sizes` by name. */
function readShape(dims: readonly Dim[], words: Uint32Array, begin: number, sizes: Sizes | undefined): number[] {
  let word = begin;
  return dims.map((dim) => {
    if (typeof dim === "number") return dim;
    const size = words[word++] ?? 0;
    if (typeof dim === "string") sizes?.free.set(dim, size);
    else sizes?.padded.set(dim.name, size);
    return size;
  });
}

/** A word of a frame has two numbers: batch size + `CAUSE_UNIT` × index of the batch's cause. */
const CAUSE_UNIT = 2 ** 24;

interface RowsPlan {
  readonly dtype: DType;
  /** Count of dimensions, without the batch dimension. */
  readonly rank: number;
}

/** Bytes of a frame of rows before the item numbers. */
const ROWS_HEAD_BYTES = 32;
/**
 * Above this many bytes, the outputs of a whole batch are written from their own memory, without a copy into the frame.
 */
const MAX_COPIED_BYTES = BLOCK_BYTES / 4;

const padding = new Uint8Array(8);

/** Outputs of one batch for the items of one front. */
export interface RowsOfFront {
  /** Item numbers, in the order of the rows. */
  readonly numbers: readonly number[];
  /** Indexes of the front's items in the batch; undefined for all items. */
  readonly places: readonly number[] | undefined;
  readonly outputs: readonly Tensor[];
  /** Size, cause and times of the batch, for metrics. Only one front gets them, so that each batch counts once. */
  readonly observation: BatchRun | undefined;
  /** Run time of the batch in milliseconds, for every front. Default: the time of `observation`, else 0. */
  readonly runMs?: number;
}

export class RowsFrames {
  readonly #plans: readonly RowsPlan[];
  /** Number of dimensions of all outputs together, without batch dimensions. */
  readonly #sizes: number;
  readonly #kind: number;

  /**
   * Writes and reads frames of one kind.
   * @param outputs the model's outputs or, for the kind `part`, the tensors that it yields
   */
  constructor(outputs: TensorSpecs, kind: number = frameKinds.finished) {
    this.#kind = kind;
    this.#plans = Object.values(outputs).map(({ dtype, dims }) => ({ dtype, rank: dims.length }));
    this.#sizes = this.#plans.reduce((sum, { rank }) => sum + rank, 0);
  }

  /** Adds a frame. Rows are copied, except large outputs of a whole batch, which no longer change. */
  add(outbox: Outbox, blocks: FrameBlocks, rows: RowsOfFront): void {
    const { numbers, places, outputs } = rows;
    const headBytes = aligned(ROWS_HEAD_BYTES + 4 * (numbers.length + this.#sizes));
    let dataBytes = 0;
    for (const output of outputs) dataBytes += bytesOf(output, numbers.length);
    const isCopied = places !== undefined || dataBytes <= MAX_COPIED_BYTES;
    const bytesHere = isCopied ? headBytes + dataBytes : headBytes;
    const frame = blocks.begin(headBytes + dataBytes, this.#kind, bytesHere);
    writeHead(frame, rows);
    if (isCopied) copyRows(frame, headBytes, rows);
    outbox.add(frame);
    if (isCopied) return;
    for (const { data } of outputs) {
      outbox.addBytes(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
      outbox.addBytes(padding.subarray(0, aligned(data.byteLength) - data.byteLength));
    }
  }

  /** Reads the outputs as views of the frame. Row i belongs to the i-th item number. */
  outputsAt({ buffer, byteOffset, words }: FrameMemory, at: number): Tensor[] {
    const count = words[at / 4 + 2] ?? 0;
    let word = (at + ROWS_HEAD_BYTES) / 4 + count;
    let offset = at + aligned(ROWS_HEAD_BYTES + 4 * (count + this.#sizes));
    return this.#plans.map(({ dtype, rank }) => {
      const shape = [count];
      let length = count;
      for (let dim = 0; dim < rank; dim++) {
        const size = words[word++] ?? 0;
        shape.push(size);
        length *= size;
      }
      const data = new arrayTypes[dtype](buffer, byteOffset + offset, length);
      offset += aligned(data.byteLength);
      return { dtype, shape, data };
    });
  }
}

function writeHead(
  { memory, from }: Frame,
  { numbers, outputs, observation, runMs = observation?.runMs }: RowsOfFront,
): void {
  const { words, doubles } = memory;
  let word = from / 4;
  words[word + 2] = numbers.length;
  words[word + 3] =
    observation === undefined ? 0 : observation.size + CAUSE_UNIT * batchCauses.indexOf(observation.cause);
  doubles[from / 8 + 2] = observation?.waitMs ?? 0;
  doubles[from / 8 + 3] = runMs ?? 0;
  word += ROWS_HEAD_BYTES / 4;
  for (let i = 0; i < numbers.length; i++) words[word++] = numbers[i] ?? 0;
  for (const { shape } of outputs) for (let dim = 1; dim < shape.length; dim++) words[word++] = shape[dim] ?? 0;
}

/** Index of the 32-bit word with the first item number, for a frame at byte `at`. */
export function numbersWord(at: number): number {
  return (at + ROWS_HEAD_BYTES) / 4;
}

export function observationAt({ buffer, byteOffset, words }: FrameMemory, at: number): BatchRun | undefined {
  const word = words[at / 4 + 3] ?? 0;
  if (word === 0) return undefined;
  const cause = batchCauses[Math.floor(word / CAUSE_UNIT)] ?? "full";
  const [waitMs = 0] = new Float64Array(buffer, byteOffset + at + 16, 1);
  return { size: word % CAUSE_UNIT, cause, waitMs, runMs: runMsAt({ buffer, byteOffset }, at) };
}

/** Milliseconds of the batch of a frame at byte `at`. */
export function runMsAt({ buffer, byteOffset }: Pick<FrameMemory, "buffer" | "byteOffset">, at: number): number {
  return new Float64Array(buffer, byteOffset + at + 24, 1)[0] ?? 0;
}

function bytesOf({ data, shape }: Tensor, rows: number): number {
  return aligned((data.byteLength / (shape[0] ?? 1)) * rows);
}

function copyRows({ memory, from }: Frame, headBytes: number, { outputs, numbers, places }: RowsOfFront): void {
  let offset = from + headBytes;
  for (const output of outputs) {
    const { dtype, shape, data } = output;
    const to = offset / data.BYTES_PER_ELEMENT;
    const size = data.length / (shape[0] ?? 1);
    if (places === undefined) setAt(memory[dtype], data, to);
    // Rows of some items of the batch: one call copies all adjacent rows.
    else
      for (let i = 0, end = 0; i < places.length; i = end) {
        const first = places[i] ?? 0;
        for (end = i + 1; end < places.length && places[end] === first + end - i; ) end += 1;
        setAt(memory[dtype], data.subarray(first * size, (first + end - i) * size), to + i * size);
      }
    offset += bytesOf(output, numbers.length);
  }
}
