/** The tensors of a batch as a few flat arrays: a call with many objects costs far more than the copies that this makes. */
import { SconceError } from "../errors.ts";
import { arrayTypes, type DType, type Tensor, type TensorData } from "../model/tensor.ts";
import type { NativeBatch } from "./addon.ts";

/** Below this a copy costs less than handing an array over. */
const SMALL_BYTES = 4096;
/** Any element may begin where 8 divides. */
const ALIGNMENT = 8;

type Views = Record<DType, TensorData> & { readonly bytes: Uint8Array };

/** Keeps its memory, as most batches need the same space. */
export class BatchPacker {
  readonly #codes: ReadonlyMap<string, number>;
  readonly #names: readonly string[];
  #meta = new Float64Array(256);
  #views = viewsOf(2 ** 14);

  /**
   * @param dtypes their names; a dtype's place is its code
   * @param names of the tensors of an item
   */
  constructor(dtypes: readonly string[], names: readonly string[]) {
    this.#codes = new Map(dtypes.map((name, code) => [name, code]));
    this.#names = names;
  }

  /**
   * What it gives is for the addon at once: the next call writes over it.
   * @throws SconceError `tensor_invalid` when an item has more or fewer tensors than there are names; the addon checks the rest
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
    return { meta: this.#meta, packed: this.#views.bytes, data };
  }

  #miscounted(item: number, tensors: number): SconceError {
    const declared = `${this.#names.length} (${this.#names.join(", ")})`;
    return new SconceError("tensor_invalid", `item ${item} has ${tensors} tensors, the model declares ${declared}`);
  }

  /** @returns where the next tensor may begin */
  #append(dtype: DType, elements: TensorData, at: number): number {
    const end = at + Math.ceil(elements.byteLength / ALIGNMENT) * ALIGNMENT;
    if (end > this.#views.bytes.length) this.#growViews(end);
    setAt(this.#views[dtype], elements, at / elements.BYTES_PER_ELEMENT);
    return end;
  }

  #growMeta(length: number): void {
    const grown = new Float64Array(2 * length);
    grown.set(this.#meta);
    this.#meta = grown;
  }

  #growViews(bytes: number): void {
    const grown = viewsOf(2 * bytes);
    grown.bytes.set(this.#views.bytes);
    this.#views = grown;
  }
}

/** One memory as an array of each dtype. */
function viewsOf(bytes: number): Views {
  const buffer = new ArrayBuffer(Math.ceil(bytes / ALIGNMENT) * ALIGNMENT);
  return {
    bytes: new Uint8Array(buffer),
    float32: new Float32Array(buffer),
    float64: new Float64Array(buffer),
    float16: new Uint16Array(buffer),
    bfloat16: new Uint16Array(buffer),
    int8: new Int8Array(buffer),
    int16: new Int16Array(buffer),
    int32: new Int32Array(buffer),
    int64: new BigInt64Array(buffer),
    uint8: new Uint8Array(buffer),
    bool: new Uint8Array(buffer),
  };
}

/** One without elements may have lost its memory, which the addon tells of. */
function isSmall({ length, byteLength }: TensorData): boolean {
  return length > 0 && byteLength <= SMALL_BYTES;
}

/** What is not is left to the addon, whose error names it. */
function isOf(dtype: DType, elements: TensorData): boolean {
  return elements instanceof arrayTypes[dtype];
}

/** Both are of one dtype, which the type system does not see of a pair. */
function setAt(to: TensorData, from: TensorData, at: number): void {
  if (to instanceof BigInt64Array) {
    if (from instanceof BigInt64Array) to.set(from, at);
  } else if (!(from instanceof BigInt64Array)) {
    to.set(from, at);
  }
}
