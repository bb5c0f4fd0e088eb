/** The frame by which a front submits an item: written there, read in the engine process, laid out here for both. */
import { arrayTypes, type DType, type Tensor, type TensorSpecs } from "../../model/tensor.ts";
import { aligned, setAt } from "../../model/tensor-memory.ts";
import { type CheckedItem, fixedKey, type ShapeKey, type Sizes, shapeKey } from "../item-check.ts";
import { doubleAt, type FrameMemory, frameKinds, IS_ALONE } from "./frame.ts";
import { type Block, beginFrame } from "./frame-blocks.ts";

/** What a frame says of an item beside its tensors. */
export interface ItemHead {
  readonly number: number;
  readonly lane: number;
  readonly heldBytes: number;
  readonly isAlone: boolean;
}

interface Plan {
  readonly dtype: DType;
  readonly dims: TensorSpecs[string]["dims"];
  /** Where all its dimensions are fixed. */
  readonly fixed: { readonly shape: readonly number[]; readonly count: number } | undefined;
}

/** Bytes before the sizes. */
const HEAD_BYTES = 24;

export class ItemFrames {
  readonly #plans: readonly Plan[];
  /** Bytes before the tensors. */
  readonly #headBytes: number;
  readonly #isFixed: boolean;

  /** @param inputs as the model declares them */
  constructor(inputs: TensorSpecs) {
    this.#plans = Object.values(inputs).map(({ dtype, dims }) => {
      const shape = dims.filter((dim) => typeof dim === "number");
      const count = shape.reduce((product, size) => product * size, 1);
      return { dtype, dims, fixed: shape.length === dims.length ? { shape, count } : undefined };
    });
    const open = this.#plans.flatMap(({ dims }) => dims.filter((dim) => typeof dim !== "number")).length;
    this.#headBytes = aligned(HEAD_BYTES + 4 * open);
    this.#isFixed = open === 0;
  }

  bytesOf(tensors: readonly Tensor[]): number {
    let bytes = this.#headBytes;
    for (const { data } of tensors) bytes += aligned(data.byteLength);
    return bytes;
  }

  /** Writes a frame of `bytesOf(tensors)` bytes at the end of a block; the tensors are copied. */
  write(block: Block, bytes: number, head: ItemHead, tensors: readonly Tensor[]): void {
    const { memory } = block;
    let offset = block.end + this.#headBytes;
    let word = beginFrame(block, bytes, frameKinds.submit | (head.isAlone ? IS_ALONE : 0));
    const { words } = memory;
    words[word + 2] = head.number;
    words[word + 3] = head.lane;
    memory.doubles[word / 2 + 2] = head.heldBytes;
    word += HEAD_BYTES / 4;
    for (let i = 0; i < tensors.length; i++) {
      const [plan, tensor] = [this.#plans[i], tensors[i]];
      if (plan === undefined || tensor === undefined) continue;
      const { shape, data } = tensor;
      if (plan.fixed === undefined) {
        for (let dim = 0; dim < shape.length; dim++) {
          if (typeof plan.dims[dim] !== "number") words[word++] = shape[dim] ?? 0;
        }
      }
      setAt(memory[plan.dtype], data, offset / data.BYTES_PER_ELEMENT);
      offset += aligned(data.byteLength);
    }
  }

  /** The item's tensors: views of the frame. */
  read(memory: FrameMemory, at: number): CheckedItem {
    const { buffer, byteOffset, words } = memory;
    const sizes: Sizes | undefined = this.#isFixed ? undefined : { free: new Map(), padded: new Map() };
    const tensors: Tensor[] = [];
    let word = (at + HEAD_BYTES) / 4;
    let [offset, bytes] = [at + this.#headBytes, 0];
    for (const { dtype, dims, fixed } of this.#plans) {
      let [shape, count] = [fixed?.shape, fixed?.count ?? 1];
      if (shape === undefined) {
        const read: number[] = [];
        for (const dim of dims) {
          const size = typeof dim === "number" ? dim : (words[word++] ?? 0);
          if (typeof dim === "string") sizes?.free.set(dim, size);
          else if (typeof dim === "object") sizes?.padded.set(dim.name, size);
          read.push(size);
          count *= size;
        }
        shape = read;
      }
      const data = new arrayTypes[dtype](buffer, byteOffset + offset, count);
      tensors.push({ dtype, shape, data });
      bytes += data.byteLength;
      offset += aligned(data.byteLength);
    }
    const { key, padded, length }: ShapeKey = sizes === undefined ? fixedKey : shapeKey(sizes);
    return { tensors, key, padded, length, bytes };
  }
}

export function heldBytesAt(memory: FrameMemory, at: number): number {
  return doubleAt(memory, at + 16);
}
