/**
 * Sets deadlines for this thread that another thread enforces, because a thread cannot interrupt its own endless loop.
 */
import type { ErrorCode } from "../../base/errors.ts";
import { isLogJson } from "../../base/log.ts";

export interface Deadline {
  readonly afterMs: number;
  /**
   * Milliseconds after `afterMs` in which this thread can still cancel the deadline, because after a pause of the
   * machine both threads continue at the same moment.
   */
  readonly graceMs: number;
  /** Text that is printed on standard error before the process exits with code 1. */
  readonly line: string;
}

/** Sets the deadline with this number. Without `deadline`, cancels it. */
export interface DeadlineMessage {
  readonly number: number;
  readonly deadline?: Deadline;
}

export class DeadlineThread implements Disposable {
  readonly #thread = new Worker(new URL("./deadline-worker.ts", import.meta.url), { ref: false });

  /** Sets a deadline, or replaces the deadline with the same number. */
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

/**
 * Formats a message like a command's last error.
 * @param afterMs milliseconds until the line is printed
 */
export function lastLine(message: string, code: ErrorCode, afterMs: number): string {
  const time = new Date(Date.now() + afterMs).toISOString();
  return isLogJson() ? JSON.stringify({ time, level: "error", message, code }) : `sconce: ${message}`;
}
