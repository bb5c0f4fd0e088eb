/** How long the JS thread was held, so that nothing else was answered, and which of the model's functions held it. */

import { type Clock, monotonicClock } from "../../base/clock.ts";
import { log } from "../../base/log.ts";

type Hook = "preprocess" | "postprocess" | "demo" | "predict";

const INTERVAL_MS = 50;
const WARN_MS = 250;
/** Of one hook, a warning at most this often. */
const REPEAT_MS = 1000;

export interface EventLoopLagOptions {
  /** Called every 50 ms or, where the thread was held, as soon as it is let go. @param seconds how late that is */
  onLag?(seconds: number): void;
  readonly warn?: (line: string) => void;
  readonly clock?: Clock;
}

interface Told {
  atMs: number;
  /** Since then, without a warning. */
  untold: number;
}

/** One for each process: the thread is one, too. */
export class EventLoopLag {
  /** Since this was made. */
  maxMs = 0;
  readonly #onLag: ((seconds: number) => void) | undefined;
  readonly #warn: (line: string) => void;
  readonly #clock: Clock;
  readonly #told = new Map<Hook, Told>();
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
   * Notes that a hook runs, or that an asynchronous one has ended in this turn of the loop. The one that ran last before the thread was let
   * go is taken for the one that held it.
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
    if (hook !== undefined && lateMs >= WARN_MS) this.#tell(hook, lateMs);
    this.#wait();
  }

  #tell(hook: Hook, lateMs: number): void {
    const now = this.#clock.now();
    const told = this.#told.get(hook);
    if (told !== undefined && now - told.atMs < REPEAT_MS) {
      told.untold++;
      return;
    }
    const untold = told?.untold ?? 0;
    const more = untold === 0 ? "" : ` (${untold} more ${untold === 1 ? "time" : "times"} since the last warning)`;
    this.#warn(`${hook} held the server for ${seconds(lateMs)}: nothing else was answered meanwhile${more}`);
    this.#told.set(hook, { atMs: now, untold: 0 });
  }
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(ms < 1000 ? 2 : 1)} s`;
}
