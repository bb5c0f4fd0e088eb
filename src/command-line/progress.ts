/** Tells how far a long copy is: a line that is written over on a terminal, a log line now and then for programs. */

import { formatBytes } from "../bytes.ts";
import { isLogJson, log } from "../log.ts";

/** A copy that takes no longer than this is not worth a word. */
const QUIET_MS = 1000;
/** Between two states of the line on a terminal, and between two lines for programs. */
const TERMINAL_MS = 100;
const LINES_MS = 5000;

const clearLine = "\r\u001b[K";

export interface ProgressOptions {
  /** What is done, e.g. "Copying". */
  readonly verb: string;
  readonly terminal?: { readonly isTTY?: boolean; write(text: string): unknown };
  readonly isJson?: boolean;
  /** Takes a line for programs. */
  readonly writeLine?: (line: string) => void;
  readonly now?: () => number;
}

export interface ProgressStep {
  /** Of what, e.g. a file. */
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

  /** To be called often. */
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

  /** Takes the line away. */
  end(): void {
    if (this.#isShown) this.#terminal.write(clearLine);
    this.#isShown = false;
  }
}
