/** Shows the progress of a long copy: a self-overwriting line on a terminal, or a log line now and then. */

import { formatBytes } from "./bytes.ts";
import { isLogJson, log } from "./log.ts";

/** Shorter copies show no progress. */
const QUIET_MS = 1000;
/** Intervals between updates on a terminal, and between log lines. */
const TERMINAL_MS = 100;
const LINES_MS = 5000;

const clearLine = "\r\u001b[K";

export interface ProgressOptions {
  /** The activity, e.g. "Copying". */
  readonly verb: string;
  readonly terminal?: { readonly isTTY?: boolean; write(text: string): unknown };
  readonly isJson?: boolean;
  /** Writes a log line. */
  readonly writeLine?: (line: string) => void;
  readonly now?: () => number;
}

export interface ProgressStep {
  /** The object of the copy, e.g. a file. */
  readonly title: string;
  readonly doneBytes: number;
  readonly totalBytes: number;
}

export class Progress {
  readonly #verb: string;
  readonly #terminal: NonNullable<ProgressOptions["terminal"]>;
  readonly #isJson: boolean;
  readonly #writeLine: (line: string) => void;
  readonly #now: () => number;
  #dueMs: number | undefined;
  #isShown = false;

  constructor(options: ProgressOptions) {
    this.#verb = options.verb;
    this.#terminal = options.terminal ?? process.stderr;
    this.#isJson = options.isJson ?? isLogJson();
    this.#writeLine = options.writeLine ?? ((line) => log.info(line));
    this.#now = options.now ?? (() => performance.now());
  }

  /** May be called often; updates are rate-limited. */
  update({ title, doneBytes, totalBytes }: ProgressStep): void {
    const now = this.#now();
    this.#dueMs ??= now + QUIET_MS;
    if (now < this.#dueMs || !(this.#isJson || this.#terminal.isTTY)) return;
    const percent = totalBytes === 0 ? 100 : Math.floor((100 * doneBytes) / totalBytes);
    const line = `${this.#verb} ${title}: ${formatBytes(doneBytes)} of ${formatBytes(totalBytes)} (${percent} %)`;
    this.#dueMs = now + (this.#isJson ? LINES_MS : TERMINAL_MS);
    if (this.#isJson) {
      this.#writeLine(line);
    } else {
      this.#terminal.write(clearLine + line);
      this.#isShown = true;
    }
  }

  /** Clears the line. */
  end(): void {
    if (this.#isShown) this.#terminal.write(clearLine);
    this.#isShown = false;
  }
}
