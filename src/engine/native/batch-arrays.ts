/** Converts batches between tensors and the arrays of the addon. */
import { elements } from "../../author/elements.ts";
import {
  arrayTypes,
  type DType,
  describeTensor,
  ModelTensor,
  type PaddedDim,
  type Tensor,
  type TensorData,
  type TensorSpecs,
} from "../../author/tensor.ts";
import { ALIGNMENT, aligned, setAt, type TensorMemory, tensorMemory } from "../../author/tensor-memory.ts";
import { SconceError } from "../../base/errors.ts";
import type { Addon, NativeBatch, NativeSpec, NativeTensors } from "./addon.ts";

/** Up to this many bytes, copying a tensor is cheaper than passing its array. */
const SMALL_BYTES = 4096;

/**
 * Packs the tensors of a batch into a few flat arrays. Passing many objects to the addon costs far more than copying.
 */
export class BatchPacker {
  readonly #codes: ReadonlyMap<string, number>;
  readonly #names: readonly string[];
  #meta = new Float64Array(256);
  #memory: TensorMemory = tensorMemory(2 ** 14);

  /** @param dtypes names of the dtypes by their code @param names names of an item's tensors, for error messages */
  constructor(dtypes: readonly string[], names: readonly string[]) {
    this.#codes = new Map(dtypes.map((name, code) => [name, code]));
    this.#names = names;
  }

  /**
   * Packs a batch. The result is valid until the next call, which overwrites it.
   * @throws SconceError `tensor_invalid` when an item has the wrong number of tensors; the addon checks all else
   */
  pack(batch: readonly (readonly Tensor[])[]): NativeBatch {
    const data: TensorData[] = [];
    let [meta, end] = [0, 0];
    for (const [i, item] of batch.entries()) {
      if (item.length !== this.#names.length) throw this.#miscounted(i, item.length);
      for (const { dtype, shape, data: elements } of item) {
        if (meta + 4 + shape.length > this.#meta.length) this.#growMeta(meta + 4 + shape.length);
        const isPacked = isSmall(elements) && isOf(dtype, elements);
        const numbers = this.#meta;
        numbers[meta++] = this.#codes.get(dtype) ?? -1;
        numbers[meta++] = shape.length;
        numbers[meta++] = isPacked ? end : -1;
        numbers[meta++] = elements.length;
        for (let dim = 0; dim < shape.length; dim++) numbers[meta++] = shape[dim] ?? -1;
        if (isPacked) end = this.#append(dtype, elements, end);
        else data.push(elements);
      }
    }
    return { meta: this.#meta, packed: this.#memory.bytes, data };
  }

  #miscounted(item: number, tensors: number): SconceError {
    const declared = `${this.#names.length} (${this.#names.join(", ")})`;
    return new SconceError("tensor_invalid", `item ${item} has ${tensors} tensors, the model declares ${declared}`);
  }

  #append(dtype: DType, elements: TensorData, at: number): number {
    const end = at + aligned(elements.byteLength);
    if (end > this.#memory.bytes.length) this.#growMemory(end);
    setAt(this.#memory[dtype], elements, at / elements.BYTES_PER_ELEMENT);
    return end;
  }

  #growMeta(length: number): void {
    const grown = new Float64Array(2 * length);
    grown.set(this.#meta);
    this.#meta = grown;
  }

  #growMemory(bytes: number): void {
    const grown = tensorMemory(2 * bytes);
    grown.bytes.set(this.#memory.bytes);
    this.#memory = grown;
  }
}

/**
 * Whether copying is cheaper than passing the array. Empty arrays are passed, because the addon detects transferred
 * buffers.
 */
function isSmall({ length, byteLength }: TensorData): boolean {
  return length > 0 && byteLength <= SMALL_BYTES;
}

/** Whether the array has the type for the dtype. If not, the array is passed to the addon, which throws the error. */
function isOf(dtype: DType, elements: TensorData): boolean {
  return elements instanceof arrayTypes[dtype];
}

/** @throws SconceError `tensor_invalid` for a padding that the dtype cannot hold */
export function nativeSpecs({ dtypes }: Pick<Addon, "dtypes">, specs: TensorSpecs): NativeSpec[] {
  const symbols = new Map<string, number>();
  return Object.entries(specs).map(([name, { dtype, dims }]) => ({
    name,
    dtype: dtypes.indexOf(dtype),
    text: describeTensor(dtype, dims),
    dims: dims.map((dim) => {
      if (typeof dim === "number") return { size: dim, symbol: -1 };
      // A padded and a free dimension of one name are two dimensions.
      const key = typeof dim === "string" ? `free ${dim}` : `pad ${dim.name}`;
      const symbol = symbols.get(key) ?? symbols.size;
      symbols.set(key, symbol);
      return { size: -1, symbol, fill: typeof dim === "string" ? undefined : fillOf(name, dtype, dim) };
    }),
  }));
}

function fillOf(input: string, dtype: DType, { name, value }: PaddedDim): Uint8Array {
  const element = elements[dtype].store(value);
  if (element === undefined) {
    const message = `input "${input}": ${dtype} cannot hold ${value}, the padding of "${name}"`;
    throw new SconceError("tensor_invalid", message);
  }
  const memory = tensorMemory(ALIGNMENT);
  memory[dtype][0] = element;
  return memory.bytes.slice(0, memory[dtype].BYTES_PER_ELEMENT);
}

/**
 * Makes tensors from the addon's arrays. Dtypes and fixed shapes come from the declaration, because the addon does not
 * return them.
 */
export class TensorPlan {
  readonly #plans: readonly { readonly dtype: DType; readonly sizes: readonly number[] | undefined }[];

  constructor(specs: TensorSpecs) {
    this.#plans = Object.values(specs).map(({ dtype, dims }) => {
      const sizes = dims.filter((dim) => typeof dim === "number");
      return { dtype, sizes: sizes.length === dims.length ? sizes : undefined };
    });
  }

  tensors(rows: number, given: NativeTensors): ModelTensor[] {
    let next = this.#plans.length;
    return this.#plans.map(({ dtype, sizes }, i) => {
      const data = given[i];
      const shape = sizes === undefined ? given[next++] : [rows, ...sizes];
      if (data === undefined || Array.isArray(data) || !Array.isArray(shape)) {
        throw new TypeError("the native addon gave other arrays than this version of sconce expects");
      }
      return new ModelTensor(dtype, shape, data);
    });
  }
}
