/** Shows the progress of a long copy: a line on a terminal, or log lines if the log is JSON. */

import { formatBytes } from "./bytes.ts";
import { isLogJson, log } from "./log.ts";

/** Copies shorter than this show no progress. */
const QUIET_MS = 1000;
/** Milliseconds between updates on a terminal (`TERMINAL_MS`) and between log lines (`LINES_MS`). */
const TERMINAL_MS = 100;
const LINES_MS = 5000;

const clearLine = "\r\u001b[K";

export interface ProgressOptions {
  /** The activity as the line shows it, e.g. "Copying". */
  readonly verb: string;
  readonly terminal?: { readonly isTTY?: boolean; write(text: string): unknown };
  readonly isJson?: boolean;
  readonly writeLine?: (line: string) => void;
  readonly now?: () => number;
}

export interface ProgressStep {
  /** Name of the copied object, e.g. a file. */
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

  /** Shows the progress so far. May be called often: too frequent updates are skipped. */
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

  /** Removes the line from the terminal. */
  end(): void {
    if (this.#isShown) this.#terminal.write(clearLine);
    this.#isShown = false;
  }
}
