/** What batches cost beside their elements, learned from those that ran: as much padding is worth having one batch less. */
import { type Lengths, paddedElements } from "./length-steps.ts";

/** Batches that count; older ones less and less. */
const MEMORY = 100;
/** Before so many have run nothing is known. */
const LEAST_BATCHES = 8;
/** Relative variance of the sizes below which they say nothing of what they have in common. */
const LEAST_SPREAD = 0.01;
/** Keys that are remembered: clients choose free dimensions. */
const MAX_KEYS = 100;

/**
 * Fits `ms = overhead + rate × elements` by least squares of relative errors, which are alike for all sizes: the line of `ms / elements` over
 * `1 / elements`, from exponentially weighted means.
 */
class Fit {
  #batches = 0;
  /** Means of 1 / elements, of ms / elements, of the square of the first and of the product of both. */
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

  /** A batch of items with this key took `ms`. */
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

  /** Elements that take as long as what a batch costs beside its own, at least 1; Infinity where that is not known, or elements cost nothing. */
  of(key: string): number {
    return this.#fits.get(key)?.overhead ?? Infinity;
  }
}
