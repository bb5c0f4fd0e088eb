/**
 * Calls the author's hooks (`preprocess` and others). A call that blocks the front for too long ends the process: the
 * supervisor reads the call from the cell, and the next process fails the input.
 */
import { MODEL_FAILED, SconceError } from "../../base/errors.ts";
import type { EventLoopLag } from "../../machine/processes/event-loop-lag.ts";
import type { HookCall, HookCell, InputPlace, ItemHook } from "./hook-cell.ts";

export interface HooksOptions {
  readonly lag?: Pick<EventLoopLag, "ran">;
  /** Undefined in a process without a supervisor. */
  readonly cell?: HookCell | undefined;
  /** Calls that blocked an earlier process. Their inputs fail without another call. */
  readonly guilty?: readonly HookCall[] | undefined;
  /** Calls run one by one for so many milliseconds, so that the cell has the call that blocks the front. Default: 0. */
  readonly aloneMs?: number;
}

type Hook = Parameters<EventLoopLag["ran"]>[0];

export class Hooks {
  readonly #lag: HooksOptions["lag"];
  readonly #cell: HookCell | undefined;
  readonly #guilty: ReadonlySet<string>;
  /** Calls whose promises have not settled. */
  readonly #awaited = new Set<HookCall>();
  readonly #aloneUntilMs: number;
  /** Resolves when the previous call has ended, or at the end of the time in which calls run one by one. */
  #last: Promise<unknown> = Promise.resolve();

  constructor({ lag, cell, guilty = [], aloneMs = 0 }: HooksOptions = {}) {
    this.#aloneUntilMs = aloneMs === 0 ? 0 : performance.now() + aloneMs;
    this.#lag = lag;
    this.#cell = cell;
    this.#guilty = new Set(guilty.map(textOf));
  }

  /**
   * Tells the event-loop monitor that the hook's code has just run. If the thread was blocked, the log names the hook.
   */
  ran(hook: Hook): void {
    this.#lag?.ran(hook);
  }

  /**
   * Calls a hook. A hook must not call another hook, because the cell has one call. While calls run one by one, returns
   * a promise.
   * @param place prediction and index of the input; undefined outside a prediction
   * @throws SconceError `item_failed` if the input blocked an earlier process. Errors of the hook are passed on.
   */
  call<T>(hook: ItemHook, run: () => T, place?: InputPlace): T | Promise<Awaited<T>> {
    this.#lag?.ran(hook);
    if (place === undefined) return run();
    if (this.#guilty.size > 0 && this.#guilty.has(textOf(place))) {
      const message = `${hook} failed: it blocked its process, which was ended and started again`;
      throw new SconceError("item_failed", message, {
        clientMessage: `${MODEL_FAILED} in ${hook}: it did not return in time`,
      });
    }
    const cell = this.#cell;
    if (cell === undefined) return run();
    const call = () => this.#noted(hook, run, { cell, place });
    return this.#aloneUntilMs > 0 && performance.now() < this.#aloneUntilMs ? this.#alone(call) : call();
  }

  #noted<T>(hook: ItemHook, run: () => T, { cell, place }: { readonly cell: HookCell; readonly place: InputPlace }): T {
    cell.begin(hook, place);
    try {
      const result = run();
      if (result instanceof Promise) this.#await(cell, { hook, ...place }, result);
      return result;
    } finally {
      cell.end();
    }
  }

  #await(cell: HookCell, call: HookCall, result: Promise<unknown>): void {
    const note = () => cell.awaits(this.#awaited.size === 1 ? this.#awaited.values().next().value : undefined);
    const ended = () => {
      this.#awaited.delete(call);
      note();
    };
    this.#awaited.add(call);
    note();
    result.then(ended, ended);
  }

  /** Makes a call after the previous call has ended. */
  async #alone<T>(call: () => T): Promise<Awaited<T>> {
    const before = this.#last;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#last = promise;
    await before;
    // A promise that never settles must not delay the next call for ever.
    const late = setTimeout(resolve, Math.max(0, this.#aloneUntilMs - performance.now()));
    try {
      return await call();
    } finally {
      clearTimeout(late);
      resolve();
    }
  }
}

function textOf({ predictionId, index }: InputPlace): string {
  return `${predictionId} ${index}`;
}
