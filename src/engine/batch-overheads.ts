/** Learns the fixed cost of a batch, from the times of batches with different numbers of elements. */
import { type Lengths, paddedElements } from "./length-steps.ts";

/** Count of batches that the weighted means cover. */
const MEMORY = 100;
const LEAST_BATCHES = 8;
const LEAST_SPREAD = 0.01;
/** Limit of remembered shape keys: clients choose the sizes of free dimensions. */
const MAX_KEYS = 100;

/**
 * Fits `ms = overhead + rate × elements` by least squares, with errors relative to the number of elements: a line of
 * `ms / elements` over `1 / elements`, from exponentially weighted means.
 */
class Fit {
  #batches = 0;
  /** Means of x = 1 / elements, of y = ms / elements, of x² and of x·y. */
  #inverse = 0;
  #cost = 0;
  #square = 0;
  #product = 0;

  observe(elements: number, ms: number): void {
    const inverse = 1 / elements;
    const cost = ms / elements;
    this.#batches = Math.min(this.#batches + 1, MEMORY);
    const share = 1 / this.#batches;
    this.#inverse += share * (inverse - this.#inverse);
    this.#cost += share * (cost - this.#cost);
    this.#square += share * (inverse * inverse - this.#square);
    this.#product += share * (inverse * cost - this.#product);
  }

  get overhead(): number {
    const variance = this.#square - this.#inverse ** 2;
    if (this.#batches < LEAST_BATCHES || variance < LEAST_SPREAD * this.#inverse ** 2) return Infinity;
    const overheadMs = (this.#product - this.#inverse * this.#cost) / variance;
    const rateMs = this.#cost - overheadMs * this.#inverse;
    return rateMs <= 0 ? Infinity : Math.max(1, overheadMs / rateMs);
  }
}

export class BatchOverheads {
  readonly #fits = new Map<string, Fit>();

  observe(key: string, batch: readonly Lengths[], ms: number): void {
    const elements = paddedElements(batch);
    if (elements === 0) return;
    let fit = this.#fits.get(key);
    if (fit === undefined) {
      fit = new Fit();
      this.#fits.set(key, fit);
      if (this.#fits.size > MAX_KEYS) for (const oldest of this.#fits.keys().take(1)) this.#fits.delete(oldest);
    }
    fit.observe(elements, ms);
  }

  /**
   * The fixed cost of a batch, as the number of elements that take the same time; at least 1. Infinity if it is
   * unknown, or if a batch takes no longer with more elements.
   */
  of(key: string): number {
    return this.#fits.get(key)?.overhead ?? Infinity;
  }
}
