/**
 * Calls the author's hooks (`preprocess` and others), and interrupts a call that blocks the process too long. If a
 * restart of the process loses no prediction, the interrupt is off after many quick calls. A blocked process is then
 * restarted, and the next process fails the input.
 */
import { Script } from "node:vm";
import { codeOf, MODEL_FAILED, SconceError } from "../../base/errors.ts";
import type { EventLoopLag } from "../../machine/processes/event-loop-lag.ts";
import type { InputPlace, ItemHook, RunningHooks } from "./running-hooks.ts";

export interface HooksOptions {
  /** Longest time in milliseconds that one call may block the JavaScript thread; without a limit by default. */
  readonly limitMs?: number;
  readonly lag?: Pick<EventLoopLag, "ran">;
  /** Running calls in a file that the next process reads; undefined if predictions end with this process. */
  readonly running?: RunningHooks | undefined;
  /** Clock in milliseconds. Default: `performance.now`. */
  readonly now?: () => number;
}

type Hook = Parameters<EventLoopLag["ran"]>[0];

/** A call that takes this many milliseconds switches the interrupt on for later calls. */
const SLOW_MS = 100;
/** After this many quick calls the interrupt is off, because it costs some microseconds a call. */
const QUICK_CALLS = 1000;

/**
 * Only a `vm.Script` can be interrupted, and a script reaches a function only through a global. A string as its name
 * costs half as much as a symbol.
 */
const GLOBAL_NAME = "__sconceHook";
let called: () => unknown = () => undefined;
Object.defineProperty(globalThis, GLOBAL_NAME, { value: () => called() });
const script = new Script(`${GLOBAL_NAME}()`, { filename: "sconce:hook" });

export class Hooks {
  readonly #lag: HooksOptions["lag"];
  readonly #limit: { readonly timeout: number } | undefined;
  readonly #running: RunningHooks | undefined;
  /** Error messages of inputs whose hook call blocked an earlier process, by prediction and index. */
  readonly #guilty = new Map<string, string>();
  readonly #suspects = new Set<string>();
  readonly #now: () => number;
  #isLimited = true;
  #quickCalls = 0;
  /**
   * Resolves when the previous call has ended, or its promise has lasted for the time limit. Calls run one by one while
   * `#suspects` (calls of which one blocked the last process) is not empty.
   */
  #last: Promise<unknown> = Promise.resolve();

  constructor({ limitMs, lag, running, now = () => performance.now() }: HooksOptions = {}) {
    this.#lag = lag;
    this.#limit = limitMs === undefined ? undefined : { timeout: Math.ceil(limitMs) };
    this.#running = running;
    this.#now = now;
    const { guilty = [], suspects = [] } = running ?? {};
    for (const call of guilty) this.#guilty.set(textOf(call), this.#heldMessage(call.hook));
    if (suspects.length > 1) for (const call of suspects) this.#suspects.add(textOf(call));
  }

  /**
   * Tells the event-loop monitor that the hook's code has just run. If the thread was blocked, the log names the hook.
   */
  ran(hook: Hook): void {
    this.#lag?.ran(hook);
  }

  /**
   * Calls a hook. A hook must not call another hook, because only one time limit applies. While calls run one by one,
   * returns a promise.
   * @param place prediction and index of the input; undefined outside a prediction
   * @throws SconceError `item_failed` after the time limit, or if the input blocked an earlier process. Errors of the
   * hook are passed on.
   */
  call<T>(hook: ItemHook, run: () => T, place?: InputPlace): T | Promise<Awaited<T>> {
    this.#lag?.ran(hook);
    const message = this.#guilty.size > 0 && place !== undefined ? this.#guilty.get(textOf(place)) : undefined;
    if (message !== undefined) {
      const clientMessage = `${MODEL_FAILED} in ${hook}: it did not return in time`;
      throw new SconceError("item_failed", message, { clientMessage });
    }
    if (this.#suspects.size === 0) return this.#noted(hook, run, place);
    return this.#alone(hook, run, place);
  }

  /** Calls the author's token counter, with the time limit of the hooks. */
  tokens<T>(run: () => T): T {
    this.#lag?.ran("tokens");
    return this.#limited("tokens", run);
  }

  /** Calls a hook after the previous call has ended. If the process is then blocked, the cause is known. */
  async #alone<T>(hook: ItemHook, run: () => T, place: InputPlace | undefined): Promise<Awaited<T>> {
    const before = this.#last;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#last = promise;
    await before;
    // A promise that never settles delays the next call only for the time limit.
    const late = setTimeout(resolve, this.#limit?.timeout);
    try {
      return await this.#noted(hook, run, place);
    } finally {
      if (place !== undefined) this.#suspects.delete(textOf(place));
      clearTimeout(late);
      resolve();
    }
  }

  #noted<T>(hook: ItemHook, run: () => T, place: InputPlace | undefined): T {
    const running = this.#running;
    const noted = place && running?.begin(hook, place);
    if (running === undefined || noted === undefined) return this.#limited(hook, run);
    let isAwaited = false;
    try {
      const result = this.#limited(hook, run);
      isAwaited = result instanceof Promise;
      if (result instanceof Promise) {
        running.awaited(noted);
        const ended = () => running.end(noted);
        result.then(ended, ended);
      }
      return result;
    } finally {
      if (!isAwaited) running.end(noted);
    }
  }

  #limited<T>(hook: Hook, run: () => T): T {
    if (this.#limit === undefined) return run();
    const beganMs = this.#now();
    try {
      if (!this.#isLimited) return run();
      called = run;
      const result: T = script.runInThisContext(this.#limit);
      return result;
    } catch (error) {
      if (!isInterrupt(error)) throw error;
      const late = `it did not return within ${this.#limit.timeout / 1000} s`;
      throw new SconceError(
        "item_failed",
        `${hook} failed: ${late} (--hook-timeout) and was interrupted; no other request was answered meanwhile`,
        { clientMessage: `${MODEL_FAILED} in ${hook}: ${late}` },
      );
    } finally {
      this.#took(this.#now() - beganMs);
    }
  }

  /** Decides whether later calls can be interrupted. */
  #took(ms: number): void {
    if (ms >= SLOW_MS) {
      this.#isLimited = true;
      this.#quickCalls = 0;
    } else if (this.#isLimited && this.#running !== undefined) {
      this.#quickCalls += 1;
      this.#isLimited = this.#quickCalls < QUICK_CALLS;
    }
  }

  #heldMessage(hook: ItemHook): string {
    const seconds = (2 * (this.#limit?.timeout ?? 0)) / 1000;
    return `${hook} failed: it held its process for ${seconds} s (twice --hook-timeout), and the process was ended and started again`;
  }
}

function textOf({ predictionId, index }: InputPlace): string {
  return `${predictionId} ${index}`;
}

function isInterrupt(error: unknown): boolean {
  return codeOf(error) === "ERR_SCRIPT_EXECUTION_TIMEOUT";
}
