/**
 * Calls the author's hooks (`preprocess` and others). A call that blocks the front for too long ends the process: the
 * supervisor reads the call from the cell, and the next process fails the input.
 */
import { MODEL_FAILED, SconceError } from "../base/errors.ts";
import type { EventLoopLag } from "../machine/processes/event-loop-lag.ts";
import type { HookCall, HookCell, InputPlace, ItemHook } from "./hook-cell.ts";

export interface HooksOptions {
  readonly lag?: Pick<EventLoopLag, "ran">;
  /** The build in the log's warnings about slow hooks; undefined outside a server. */
  readonly label?: string | undefined;
  /** Undefined in a process without a supervisor. */
  readonly cell?: HookCell | undefined;
  /** Calls that blocked an earlier process. Their inputs fail without another call. */
  readonly guilty?: readonly HookCall[] | undefined;
}

type Hook = Parameters<EventLoopLag["ran"]>[0];

export class Hooks {
  readonly #lag: HooksOptions["lag"];
  readonly #label: string | undefined;
  readonly #cell: HookCell | undefined;
  readonly #guilty: ReadonlySet<string>;

  constructor({ lag, label, cell, guilty = [] }: HooksOptions = {}) {
    this.#lag = lag;
    this.#label = label;
    this.#cell = cell;
    this.#guilty = new Set(guilty.map(textOf));
  }

  /**
   * Tells the event-loop monitor that the hook's code has just run. If the thread was blocked, the log names the hook.
   */
  ran(hook: Hook): void {
    this.#lag?.ran(hook, this.#label);
  }

  /**
   * Calls a hook. A hook must not call another hook, because the cell has one call.
   * @param place prediction and index of the input; undefined outside a prediction
   * @throws SconceError `item_failed` if the input blocked an earlier process. Errors of the hook are passed on.
   */
  call<T>(hook: ItemHook, run: () => T, place?: InputPlace): T {
    this.#lag?.ran(hook, this.#label);
    if (place === undefined) return run();
    if (this.#guilty.size > 0 && this.#guilty.has(textOf(place))) {
      const message = `${hook} failed: it blocked its process, which was ended and started again`;
      throw new SconceError("item_failed", message, {
        clientMessage: `${MODEL_FAILED} in ${hook}: it did not return in time`,
      });
    }
    const cell = this.#cell;
    if (cell === undefined) return run();
    cell.begin(hook, place);
    try {
      return run();
    } finally {
      cell.end();
    }
  }
}

function textOf({ predictionId, index }: InputPlace): string {
  return `${predictionId} ${index}`;
}
