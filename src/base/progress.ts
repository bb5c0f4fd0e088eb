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
  readonly #options: Required<ProgressOptions>;
  #dueMs: number | undefined;
  #isShown = false;

  constructor(options: ProgressOptions) {
    const [isJson, writeLine] = [isLogJson(), (line: string) => log.info(line)];
    this.#options = { terminal: process.stderr, isJson, writeLine, now: () => performance.now(), ...options };
  }

  /** Shows the progress so far. May be called often: too frequent updates are skipped. */
  update({ title, doneBytes, totalBytes }: ProgressStep): void {
    const { verb, terminal, isJson, writeLine } = this.#options;
    const now = this.#options.now();
    this.#dueMs ??= now + QUIET_MS;
    if (now < this.#dueMs || !(isJson || terminal.isTTY)) return;
    const percent = totalBytes === 0 ? 100 : Math.floor((100 * doneBytes) / totalBytes);
    const line = `${verb} ${title}: ${formatBytes(doneBytes)} of ${formatBytes(totalBytes)} (${percent} %)`;
    this.#dueMs = now + (isJson ? LINES_MS : TERMINAL_MS);
    if (isJson) {
      writeLine(line);
    } else {
      terminal.write(clearLine + line);
      this.#isShown = true;
    }
  }

  /** Removes the line from the terminal. */
  end(): void {
    if (this.#isShown) this.#options.terminal.write(clearLine);
    this.#isShown = false;
  }
}
