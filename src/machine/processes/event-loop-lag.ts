/** Measures how long the JS thread was blocked, and names the author's function that blocked it. */
import { type Clock, monotonicClock } from "../../base/clock.ts";
import { log } from "../../base/log.ts";
import { LogLimit } from "../../base/log-limit.ts";

type Hook = "preprocess" | "postprocess" | "tokens" | "demo" | "predict";

const INTERVAL_MS = 50;
const WARN_MS = 250;

export interface EventLoopLagOptions {
  /** Called every 50 ms, or later if the thread is blocked. @param seconds delay of this call */
  onLag?(seconds: number): void;
  readonly warn?: (line: string) => void;
  readonly clock?: Clock;
}

/** Measures the JS thread of its process, so a process needs one instance. */
export class EventLoopLag {
  /** Longest time that the thread was blocked so far, in milliseconds. */
  maxMs = 0;
  readonly #onLag: ((seconds: number) => void) | undefined;
  readonly #warn: (line: string) => void;
  readonly #clock: Clock;
  /** At most one warning a second about each function. */
  readonly #limit: LogLimit;
  #ran: Hook | undefined;
  #label: string | undefined;
  #dueMs = 0;
  #cancelTimer: (() => void) | undefined;

  constructor(options: EventLoopLagOptions = {}) {
    this.#onLag = options.onLag?.bind(options);
    this.#warn = options.warn ?? ((line) => log.warn(line));
    this.#clock = options.clock ?? monotonicClock;
    this.#limit = new LogLimit(this.#clock);
  }

  start(): void {
    this.#cancelTimer?.();
    this.#wait();
  }

  stop(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }

  /**
   * Notes which author's function runs. Callers report the start of each function, and the end of an asynchronous one.
   * After a block of the thread, the last reported function is named as the cause.
   * @param label the build of the function
   */
  ran(hook: Hook, label?: string): void {
    this.#ran = hook;
    this.#label = label;
  }

  #wait(): void {
    this.#dueMs = this.#clock.now() + INTERVAL_MS;
    this.#cancelTimer = this.#clock.after(INTERVAL_MS, () => this.#tick());
  }

  #tick(): void {
    const lateMs = Math.max(0, this.#clock.now() - this.#dueMs);
    const hook = this.#ran;
    this.#ran = undefined;
    this.maxMs = Math.max(this.maxMs, lateMs);
    this.#onLag?.(lateMs / 1000);
    if (hook !== undefined && lateMs >= WARN_MS) {
      const name = this.#label === undefined ? hook : `${hook} of ${this.#label}`;
      const line = `${name} held the server for ${seconds(lateMs)}: no other request was answered meanwhile`;
      this.#limit.write(name, (...more) => this.#warn([line, ...more].join(" ")));
    }
    this.#wait();
  }
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(ms < 1000 ? 2 : 1)} s`;
}
