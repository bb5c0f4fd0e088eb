/** Deadlines for this thread, kept by another thread: only another thread can end code that never returns. */
import type { ErrorCode } from "../../base/errors.ts";
import { isLogJson } from "../../base/log.ts";

export interface Deadline {
  readonly afterMs: number;
  /** Further time in which this thread can cancel. After a pause of the whole machine, both threads continue at once. */
  readonly graceMs: number;
  /** Printed on standard error before the process exits with code 1. */
  readonly line: string;
}

/** Sets the deadline of a number, or without a deadline cancels it. */
export interface DeadlineMessage {
  readonly number: number;
  readonly deadline?: Deadline;
}

export class DeadlineThread implements Disposable {
  readonly #thread = new Worker(new URL("./deadline-worker.ts", import.meta.url), { ref: false });

  /** Replaces the deadline of this number. */
  set(number: number, deadline: Deadline): void {
    this.#send({ number, deadline });
  }

  cancel(number: number): void {
    this.#send({ number });
  }

  [Symbol.dispose](): void {
    this.#thread.terminate();
  }

  #send(message: DeadlineMessage): void {
    this.#thread.postMessage(message);
  }
}

/** The line in the form of a command's last error. @param afterMs time until it is printed */
export function lastLine(message: string, code: ErrorCode, afterMs: number): string {
  const time = new Date(Date.now() + afterMs).toISOString();
  return isLogJson() ? JSON.stringify({ time, level: "error", message, code }) : `sconce: ${message}`;
}
