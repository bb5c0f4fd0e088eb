/** Counts the bytes of a batch's inputs, with each dimension padded to the largest size in the batch. */
import type { Tensor } from "../../author/tensor.ts";

export class PaddedBytes {
  #items = 0;
  #itemBytes = 0;
  /** The largest size so far of each dimension of each tensor. */
  #sizes: readonly (readonly number[])[] = [];

  /** Bytes of the padded batch. */
  get bytes(): number {
    return this.#items * this.#itemBytes;
  }

  /**
   * Adds an item if it is the first, or if the padded batch then has at most `maxBytes`. @returns whether it was added
   */
  join(tensors: readonly Tensor[], maxBytes: number): boolean {
    let bytes = 0;
    const joined = tensors.map(({ shape, data }, i) => {
      const known = this.#sizes[i];
      const sizes = shape.map((size, dim) => Math.max(size, known?.[dim] ?? 0));
      bytes += sizes.reduce((product, size) => product * size, data.BYTES_PER_ELEMENT);
      return sizes;
    });
    if (this.#items > 0 && bytes * (this.#items + 1) > maxBytes) return false;
    this.#sizes = joined;
    this.#itemBytes = bytes;
    this.#items += 1;
    return true;
  }
}
