/** Measures how long the JS thread was blocked, and names the hook of the model that blocked it. */
import { type Clock, monotonicClock } from "../../base/clock.ts";
import { log } from "../../base/log.ts";

type Hook = "preprocess" | "postprocess" | "tokens" | "demo" | "predict";

const INTERVAL_MS = 50;
const WARN_MS = 250;
/** Minimum time between two warnings about one hook. */
const REPEAT_MS = 1000;

export interface EventLoopLagOptions {
  /** Called every 50 ms, or as soon as the thread is free again. @param seconds delay of this call */
  onLag?(seconds: number): void;
  readonly warn?: (line: string) => void;
  readonly clock?: Clock;
}

interface Warned {
  atMs: number;
  /** Blocks since then, without a warning. */
  suppressed: number;
}

/** A process needs one, for its one JS thread. */
export class EventLoopLag {
  /** The longest block so far. */
  maxMs = 0;
  readonly #onLag: ((seconds: number) => void) | undefined;
  readonly #warn: (line: string) => void;
  readonly #clock: Clock;
  readonly #warned = new Map<Hook, Warned>();
  #ran: Hook | undefined;
  #dueMs = 0;
  #cancelTimer: (() => void) | undefined;

  constructor(options: EventLoopLagOptions = {}) {
    this.#onLag = options.onLag?.bind(options);
    this.#warn = options.warn ?? ((line) => log.warn(line));
    this.#clock = options.clock ?? monotonicClock;
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
   * Call when a hook starts, and when an asynchronous hook ends. The last hook before a late tick is named as the one
   * that blocked the thread.
   */
  ran(hook: Hook): void {
    this.#ran = hook;
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
    if (hook !== undefined && lateMs >= WARN_MS) this.#warnOf(hook, lateMs);
    this.#wait();
  }

  #warnOf(hook: Hook, lateMs: number): void {
    const now = this.#clock.now();
    const warned = this.#warned.get(hook);
    if (warned !== undefined && now - warned.atMs < REPEAT_MS) {
      warned.suppressed++;
      return;
    }
    const suppressed = warned?.suppressed ?? 0;
    const more =
      suppressed === 0 ? "" : ` (${suppressed} more ${suppressed === 1 ? "time" : "times"} since the last warning)`;
    this.#warn(`${hook} held the server for ${seconds(lateMs)}: nothing else was answered meanwhile${more}`);
    this.#warned.set(hook, { atMs: now, suppressed: 0 });
  }
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(ms < 1000 ? 2 : 1)} s`;
}
