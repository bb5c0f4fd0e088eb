/**
 * Checks that memory stays flat: samples it during a run, and compares the second with the last quarter of the
 * samples.
 */
import { median } from "../../bench/numbers.ts";
import type { Tally } from "./tally.ts";

const megabytes = (bytes: number) => `${(bytes / 2 ** 20).toFixed(0)} MiB`;

export class Flatness {
  readonly #what: string;
  readonly #bound: { readonly ratio: number; readonly bytes: number };
  readonly #samples: number[] = [];

  /**
   * Makes a check without samples. @param what name of the measured program, for the report @param bound largest median
   * of the last quarter: `ratio` times the median of the second quarter, plus `bytes`
   */
  constructor(what: string, bound: { readonly ratio: number; readonly bytes: number }) {
    this.#what = what;
    this.#bound = bound;
  }

  add(bytes: number): void {
    this.#samples.push(bytes);
  }

  get now(): string {
    return `${this.#what} ${megabytes(this.#samples.at(-1) ?? 0)}`;
  }

  judge(tally: Tally): void {
    const quarter = this.#samples.length >> 2;
    const [early, late] = [this.#samples.slice(quarter, 2 * quarter), this.#samples.slice(-quarter)].map(median);
    const most = this.#bound.ratio * (early ?? 0) + this.#bound.bytes;
    const told = `${this.#what}: ${megabytes(early ?? 0)} in the second quarter of the time, ${megabytes(late ?? 0)} in the last`;
    tally.note(told);
    if ((late ?? 0) > most) tally.found("leaked", `${told}, at most ${megabytes(most)} expected`);
  }
}
