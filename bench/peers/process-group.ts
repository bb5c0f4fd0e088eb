/** A peer's processes: a group of their own that ends as a whole, by its id, whatever the peer starts and however this program ends. */
import { closeSync, existsSync, openSync, readFileSync } from "node:fs";
import { endWithUs } from "../end-with-us.ts";

export interface GroupOptions {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** The file that takes what the processes print. */
  readonly log: string;
  /** What processes that were asked to end are given before they are ended (default: 5 s). */
  readonly stopMs?: number;
}

const SHOWN_LINES = 20;
const STOP_MS = 5000;

export class ProcessGroup implements AsyncDisposable {
  readonly #process: Bun.Subprocess;
  readonly #options: GroupOptions;
  readonly #release: () => void;

  constructor(options: GroupOptions) {
    const { command, env, cwd, log } = options;
    this.#options = options;
    // One descriptor for both: two would write over each other.
    const output = openSync(log, "w");
    this.#process = Bun.spawn([...command], {
      cwd,
      env: { ...process.env, ...env },
      stdin: "ignore",
      stdout: output,
      stderr: output,
      detached: true,
    });
    closeSync(output);
    this.#release = endWithUs(() => this.#signal("SIGKILL"));
  }

  get hasEnded(): boolean {
    return this.#process.exitCode !== null || this.#process.signalCode !== null;
  }

  /** An error that says how the group fared, with the end of what it printed. */
  failure(what: string): Error {
    const { command, log } = this.#options;
    const { exitCode, signalCode } = this.#process;
    const end = this.hasEnded ? `ended with ${signalCode ?? `code ${exitCode}`}` : what;
    const printed = existsSync(log) ? readFileSync(log, "utf8").trimEnd().split("\n").slice(-SHOWN_LINES) : [];
    return new Error([`this ${end}: ${command.join(" ")}`, `the end of ${log}:`, ...printed].join("\n"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#signal("SIGTERM");
    const end = performance.now() + (this.#options.stopMs ?? STOP_MS);
    while (this.#signal(0) && performance.now() < end) await Bun.sleep(50);
    this.#signal("SIGKILL");
    await this.#process.exited;
    this.#release();
  }

  /** @returns whether there still is a process in the group */
  #signal(signal: NodeJS.Signals | 0): boolean {
    try {
      return process.kill(-this.#process.pid, signal);
    } catch {
      return false;
    }
  }
}
