/** How many bytes the inputs of a batch have once its items are padded to the longest of them. */

/** What is known of an item's tensor. */
export interface SizedTensor {
  readonly shape: readonly number[];
  readonly data: { readonly BYTES_PER_ELEMENT: number };
}

export class PaddedBytes {
  #items = 0;
  /** Of each tensor, the largest size of each dimension. */
  #sizes: readonly (readonly number[])[] = [];

  /** @returns whether the batch has at most `maxBytes` with this item, which joins it then */
  join(tensors: readonly SizedTensor[], maxBytes: number): boolean {
    let bytes = 0;
    const joined = tensors.map(({ shape, data }, i) => {
      const known = this.#sizes[i];
      const sizes = shape.map((size, dim) => Math.max(size, known?.[dim] ?? 0));
      bytes += sizes.reduce((product, size) => product * size, data.BYTES_PER_ELEMENT);
      return sizes;
    });
    if (this.#items > 0 && bytes * (this.#items + 1) > maxBytes) return false;
    this.#sizes = joined;
    this.#items += 1;
    return true;
  }
}
