/** Deadlines for this thread, kept by another one: code that never returns can be ended by nobody else. */
import type { ErrorCode } from "../../base/errors.ts";
import { isLogJson } from "../../base/log.ts";

export interface Deadline {
  readonly afterMs: number;
  /** Then this thread has so long to call it off: all threads may have stood still, and both go on at once. */
  readonly graceMs: number;
  /** What the process ends with: a line on standard error, and exit code 1. */
  readonly line: string;
}

/** What the thread is told: a deadline, or that the one with this number is called off. */
export interface Told {
  readonly number: number;
  readonly deadline?: Deadline;
}

export class DeadlineThread implements Disposable {
  readonly #thread = new Worker(new URL("./deadline-worker.ts", import.meta.url), { ref: false });

  /** In the place of the one with this number, if there is one. */
  set(number: number, deadline: Deadline): void {
    this.#tell({ number, deadline });
  }

  callOff(number: number): void {
    this.#tell({ number });
  }

  [Symbol.dispose](): void {
    this.#thread.terminate();
  }

  #tell(message: Told): void {
    this.#thread.postMessage(message);
  }
}

/** As any error is printed that ends a command. @param afterMs from now on, when it will be printed */
export function lastLine(message: string, code: ErrorCode, afterMs: number): string {
  const time = new Date(Date.now() + afterMs).toISOString();
  return isLogJson() ? JSON.stringify({ time, level: "error", message, code }) : `sconce: ${message}`;
}
