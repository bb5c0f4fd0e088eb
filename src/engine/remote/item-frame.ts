/** The frame that brings one item from an HTTP process to the engine process. */
import { arrayTypes, countOf, type Dim, type DType, type Tensor, type TensorSpecs } from "../../author/tensor.ts";
import { ALIGNMENT, aligned, setAt } from "../../author/tensor-memory.ts";
import { type CheckedItem, fixedKey, type Sizes, shapeKey } from "../item-check.ts";
import { type FrameMemory, frameKinds, IS_ALONE, IS_SEPARATE, IS_SHARED } from "./frame.ts";
import { type Block, beginFrame } from "./frame-blocks.ts";
import type { SharedPlace } from "./shared-tensors.ts";

export interface ItemHead {
  readonly number: number;
  readonly lane: number;
  readonly isAlone: boolean;
  readonly isSeparate?: boolean | undefined;
}

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

  /** Bytes of a frame whose tensors are in shared memory. */
  get sharedBytes(): number {
    return this.#headBytes + ALIGNMENT;
  }

  /**
   * Copies an item to the end of a block, as a frame of `bytesOf(tensors)` or `sharedBytes` bytes.
   * @param shared place in shared memory that gets the tensors; undefined to put them into the frame
   */
  write(block: Block, bytes: number, head: ItemHead, tensors: readonly Tensor[], shared?: SharedPlace): void {
    const { words } = block.memory;
    const inFrame = block.end + this.#headBytes;
    let word = beginFrame(
      block,
      bytes,
      frameKinds.submit |
        (head.isAlone ? IS_ALONE : 0) |
        (head.isSeparate ? IS_SEPARATE : 0) |
        (shared ? IS_SHARED : 0),
    );
    if (shared !== undefined) words[inFrame / 4] = shared.at;
    const memory = shared === undefined ? block.memory : shared.memory;
    let offset = shared === undefined ? inFrame : shared.at;
    words[word + 2] = head.number;
    words[word + 3] = head.lane;
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
  }

  /** Reads an item. Its tensors are views of the frame or of shared memory. */
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
