/** Detects a stuck child process: the oldest batch of an engine does not end, or a process does not answer, such as a front that a hook blocks. */
import { type Clock, monotonicClock } from "../../base/clock.ts";

const INTERVAL_MS = 1000;

export interface WatchdogOptions {
  /** Longest run of a batch, and longest wait for an answer, in milliseconds. */
  readonly limitMs: number;
  /** Asks the process how many milliseconds its oldest batch has been running. */
  ask(): Promise<unknown>;
  /** Called once, when the process is stuck. */
  onStuck(reason: string): void;
  readonly clock?: Clock;
}

export class Watchdog {
  readonly #options: WatchdogOptions;
  readonly #clock: Clock;
  readonly #intervalMs: number;
  #cancelTimer: (() => void) | undefined;
  #lastTickMs = 0;
  /** Time when the last unanswered question was sent; undefined if every question is answered. */
  #questionAtMs: number | undefined;
  #excusedUntilMs = 0;

  constructor(options: WatchdogOptions) {
    this.#options = options;
    this.#clock = options.clock ?? monotonicClock;
    // Checks twice within the limit, at least once per second.
    this.#intervalMs = Math.min(INTERVAL_MS, options.limitMs / 2);
  }

  /** Starts the checks. A second call does nothing. */
  start(): void {
    if (this.#cancelTimer !== undefined) return;
    this.#lastTickMs = this.#clock.now();
    this.#wait();
  }

  stop(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }

  async #ask(): Promise<void> {
    const runningForMs = await this.#options.ask();
    // A process that ends gives no answer.
    if (typeof runningForMs !== "number") return;
    this.#questionAtMs = undefined;
    const isExcused = this.#clock.now() < this.#excusedUntilMs;
    if (runningForMs > this.#options.limitMs && !isExcused) {
      this.#stuck(`a batch did not end within ${seconds(this.#options.limitMs)}`);
    }
  }

  #wait(): void {
    this.#cancelTimer = this.#clock.after(this.#intervalMs, () => this.#tick());
  }

  #tick(): void {
    const { limitMs } = this.#options;
    const now = this.#clock.now();
    // A late tick means that this process was blocked or the machine slept. The watched process may have stood still
    // too, so its times count from now.
    if (now - this.#lastTickMs > 2 * this.#intervalMs) {
      this.#excusedUntilMs = now + limitMs;
      if (this.#questionAtMs !== undefined) this.#questionAtMs = now;
    }
    this.#lastTickMs = now;
    if (this.#questionAtMs !== undefined && now - this.#questionAtMs >= limitMs) {
      this.#stuck(`it gave no answer for ${seconds(limitMs)}`);
      return;
    }
    this.#wait();
    if (this.#questionAtMs !== undefined) return;
    this.#questionAtMs = now;
    void this.#ask();
  }

  #stuck(reason: string): void {
    if (this.#cancelTimer === undefined) return;
    this.stop();
    this.#options.onStuck(reason);
  }
}

function seconds(ms: number): string {
  return `${Number((ms / 1000).toFixed(1))} s`;
}
