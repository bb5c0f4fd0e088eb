/** Calls the author's hooks. A synchronous hook that does not return in time is interrupted, and only its own input fails. */
import { Script } from "node:vm";
import { SconceError } from "../errors.ts";
import type { EventLoopLag } from "../processes/event-loop-lag.ts";

export interface HooksOptions {
  /** Longest time that one call may hold the JS thread; by default without end. */
  readonly limitMs?: number;
  readonly lag?: Pick<EventLoopLag, "ran">;
}

type Hook = Parameters<EventLoopLag["ran"]>[0];

/** The engine interrupts only scripts, and a script reaches a function only through a global name. */
const key = Symbol.for("sconce.hook");
const slot: { run: () => unknown } = { run: () => undefined };
Object.defineProperty(globalThis, key, { value: slot });
const script = new Script(`globalThis[Symbol.for("${key.description}")].run()`, { filename: "sconce:hook" });

export class Hooks {
  readonly #lag: HooksOptions["lag"];
  readonly #limit: { readonly timeout: number } | undefined;

  constructor({ limitMs, lag }: HooksOptions = {}) {
    this.#lag = lag;
    this.#limit = limitMs === undefined ? undefined : { timeout: Math.ceil(limitMs) };
  }

  /** Notes that a part of a hook after an `await` has ended. */
  ran(hook: Hook): void {
    this.#lag?.ran(hook);
  }

  /**
   * Calls a hook. It must not call another: one limit applies at a time.
   * @throws SconceError `item_failed` when it does not return in time; else what the hook throws
   */
  call<T>(hook: Hook, run: () => T): T {
    this.#lag?.ran(hook);
    if (this.#limit === undefined) return run();
    slot.run = run;
    try {
      const result: T = script.runInThisContext(this.#limit);
      return result;
    } catch (error) {
      if (!isInterrupt(error)) throw error;
      const seconds = this.#limit.timeout / 1000;
      throw new SconceError(
        "item_failed",
        `${hook} failed: it did not return within ${seconds} s (--hook-timeout) and was interrupted; nothing else was answered meanwhile`,
      );
    }
  }
}

function isInterrupt(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ERR_SCRIPT_EXECUTION_TIMEOUT";
}
