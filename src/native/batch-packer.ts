/** The tensors of a batch as a few flat arrays: a call with many objects costs far more than the copies that this makes. */
import { SconceError } from "../errors.ts";
import { arrayTypes, type DType, type Tensor, type TensorData } from "../model/tensor.ts";
import { aligned, setAt, type TensorMemory, tensorMemory } from "../model/tensor-memory.ts";
import type { NativeBatch } from "./addon.ts";

/** Below this a copy costs less than handing an array over. */
const SMALL_BYTES = 4096;

/** Keeps its memory, as most batches need the same space. */
export class BatchPacker {
  readonly #codes: ReadonlyMap<string, number>;
  readonly #names: readonly string[];
  #meta = new Float64Array(256);
  #memory: TensorMemory = tensorMemory(2 ** 14);

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
    return { meta: this.#meta, packed: this.#memory.bytes, data };
  }

  #miscounted(item: number, tensors: number): SconceError {
    const declared = `${this.#names.length} (${this.#names.join(", ")})`;
    return new SconceError("tensor_invalid", `item ${item} has ${tensors} tensors, the model declares ${declared}`);
  }

  /** @returns where the next tensor may begin */
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

/** One without elements may have lost its memory, which the addon tells of. */
function isSmall({ length, byteLength }: TensorData): boolean {
  return length > 0 && byteLength <= SMALL_BYTES;
}

/** What is not is left to the addon, whose error names it. */
function isOf(dtype: DType, elements: TensorData): boolean {
  return elements instanceof arrayTypes[dtype];
}
