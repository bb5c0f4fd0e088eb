/** The batches of one runner: the running batch, and the committed one, which the runner got ahead of time. */
import type { Runner } from "../runner.ts";

/** A runner has at most a running batch and a committed batch, which runs next. */
const MAX_IN_FLIGHT = 2;
/**
 * A runner gets its next batch this many milliseconds before the expected end of the running batch, so that the device
 * does not wait for the event loop. Items cannot join the batch afterwards.
 */
const LEAD_MS = 20;

export class BatchSlot<T> {
  readonly runner: Runner;
  /** The running batch, then the committed batch, which runs next. */
  readonly #given: (readonly T[])[] = [];
  #beganAtMs = 0;
  /** When the running batch last yielded partial outputs. */
  #yieldedAtMs = 0;
  #lastMs = 0;

  constructor(runner: Runner) {
    this.runner = runner;
  }

  get isIdle(): boolean {
    return this.#given.length === 0;
  }

  get running(): readonly T[] | undefined {
    return this.#given[0];
  }

  /** Expected end of the running batch, if it takes as long as the batch before. */
  get freeAtMs(): number {
    return this.#beganAtMs + this.#lastMs;
  }

  /** When to hand over the next batch ahead of time; Infinity once it is handed over. */
  get commitAtMs(): number {
    return this.#given.length >= MAX_IN_FLIGHT ? Infinity : this.freeAtMs - LEAD_MS;
  }

  /** Milliseconds since the running batch began or last yielded partial outputs; 0 without a batch. */
  silentForMs(nowMs: number): number {
    return this.isIdle ? 0 : nowMs - Math.max(this.#beganAtMs, this.#yieldedAtMs);
  }

  /** Notes that a batch yielded partial outputs, if it runs on this runner. */
  yielded(batch: readonly T[], nowMs: number): void {
    if (this.running === batch) this.#yieldedAtMs = nowMs;
  }

  given(batch: readonly T[], nowMs: number): void {
    if (this.isIdle) this.#beganAtMs = nowMs;
    this.#given.push(batch);
  }

  /** Notes the end of the running batch. @returns its milliseconds */
  ended(nowMs: number): number {
    this.#given.shift();
    this.#lastMs = nowMs - this.#beganAtMs;
    this.#beganAtMs = nowMs;
    return this.#lastMs;
  }
}
