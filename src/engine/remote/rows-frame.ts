/** Frames with the outputs or partial outputs of a batch, from the engine process to an HTTP process. */

import { arrayTypes, type DType, type Tensor, type TensorSpecs } from "../../author/tensor.ts";
import { aligned, setAt } from "../../author/tensor-memory.ts";
import { batchCauses } from "../../base/labels.ts";
import type { BatchRun } from "../engine.ts";
import { doubleAt, type FrameMemory, frameKinds } from "./frame.ts";
import { BLOCK_BYTES, type Block, beginFrame, type FrameBlocks } from "./frame-blocks.ts";
import type { Outbox } from "./outbox.ts";

/** One word of a frame has two numbers: batch size + this factor × index of the batch's cause. */
const CAUSE_UNIT = 2 ** 24;

interface Plan {
  readonly dtype: DType;
  /** Count of dimensions, without the batch dimension. */
  readonly rank: number;
}

/** Bytes of a frame before the item numbers. */
const HEAD_BYTES = 32;
/**
 * Above this many bytes, the outputs of a whole batch are written from their own memory, without a copy into the frame.
 */
const MAX_COPIED_BYTES = BLOCK_BYTES / 4;

const padding = new Uint8Array(8);

/** Outputs of one batch for the items of one HTTP process. */
export interface RowsOfFront {
  /** Item numbers, in the order of the rows. */
  readonly numbers: readonly number[];
  /** Indexes of the HTTP process's items in the batch; undefined for all items. */
  readonly places: readonly number[] | undefined;
  readonly outputs: readonly Tensor[];
  /** Size and times of the batch. Only one HTTP process gets them, so that metrics count each batch once. */
  readonly observation: BatchRun | undefined;
}

export class RowsFrames {
  readonly #plans: readonly Plan[];
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
    const headBytes = aligned(HEAD_BYTES + 4 * (numbers.length + this.#sizes));
    let dataBytes = 0;
    for (const output of outputs) dataBytes += bytesOf(output, numbers.length);
    const isCopied = places !== undefined || dataBytes <= MAX_COPIED_BYTES;
    const bytesHere = isCopied ? headBytes + dataBytes : headBytes;
    const block = blocks.withRoomFor(bytesHere);
    const from = block.end;
    beginFrame(block, headBytes + dataBytes, this.#kind, bytesHere);
    this.#writeHead(block, from, rows);
    if (isCopied) copyRows(block, from + headBytes, rows);
    outbox.add(block, from, block.end);
    if (isCopied) return;
    for (const { data } of outputs) {
      outbox.addBytes(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
      outbox.addBytes(padding.subarray(0, aligned(data.byteLength) - data.byteLength));
    }
  }

  /** Reads the outputs as views of the frame. Row i belongs to the i-th item number. */
  outputsAt({ buffer, byteOffset, words }: FrameMemory, at: number): Tensor[] {
    const count = words[at / 4 + 2] ?? 0;
    let word = (at + HEAD_BYTES) / 4 + count;
    let offset = at + aligned(HEAD_BYTES + 4 * (count + this.#sizes));
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

  #writeHead({ memory }: Block, from: number, { numbers, outputs, observation }: RowsOfFront): void {
    const { words, doubles } = memory;
    let word = from / 4;
    words[word + 2] = numbers.length;
    words[word + 3] =
      observation === undefined ? 0 : observation.size + CAUSE_UNIT * batchCauses.indexOf(observation.cause);
    doubles[from / 8 + 2] = observation?.waitMs ?? 0;
    doubles[from / 8 + 3] = observation?.runMs ?? 0;
    word += HEAD_BYTES / 4;
    for (let i = 0; i < numbers.length; i++) words[word++] = numbers[i] ?? 0;
    for (const { shape } of outputs) for (let dim = 1; dim < shape.length; dim++) words[word++] = shape[dim] ?? 0;
  }
}

/** Index of the 32-bit word with the first item number, for a frame at byte `at`. */
export function numbersWord(at: number): number {
  return (at + HEAD_BYTES) / 4;
}

export function observationAt(memory: FrameMemory, at: number): BatchRun | undefined {
  const word = memory.words[at / 4 + 3] ?? 0;
  if (word === 0) return undefined;
  const cause = batchCauses[Math.floor(word / CAUSE_UNIT)] ?? "full";
  return { size: word % CAUSE_UNIT, cause, waitMs: doubleAt(memory, at + 16), runMs: doubleAt(memory, at + 24) };
}

function bytesOf({ data, shape }: Tensor, rows: number): number {
  return aligned((data.byteLength / (shape[0] ?? 1)) * rows);
}

function copyRows({ memory }: Block, at: number, { outputs, numbers, places }: RowsOfFront): void {
  let offset = at;
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
