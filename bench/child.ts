/** A child process of the benchmark that reads and writes lines. Stopping it stops all its descendants. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { constants } from "node:os";
import { createInterface } from "node:readline";
import { root } from "../scripts/setup/step.ts";

export interface ChildOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly stopMs?: number;
}

const KEPT_LINES = 40;
const running = new Set<Child>();

export class Child implements AsyncDisposable {
  readonly #command: readonly string[];
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #stopMs: number;
  /** Resolves once the process has ended and all its output was read. */
  readonly #ended = Promise.withResolvers<void>();
  #isOver = false;
  /** Each listener is called with every line of output, and with undefined when the process has ended. */
  readonly #listeners = new Set<(line: string | undefined) => void>();
  /** Last lines of standard output and of standard error, for error messages. */
  readonly #lines: Readonly<Record<"stdout" | "stderr", string[]>> = { stdout: [], stderr: [] };

  constructor(command: readonly string[], { env = {}, cwd = root, stopMs = 10_000 }: ChildOptions = {}) {
    const [program = "", ...args] = command;
    this.#command = command;
    this.#stopMs = stopMs;
    // `detached` makes a process group, whose signals reach descendants too. pytriton would leave its server running
    // after a SIGTERM.
    this.#process = spawn(program, args, { cwd, env: { ...process.env, ...env }, detached: true });
    running.add(this);
    const outputs = (["stdout", "stderr"] as const).map((name) => this.#read(name));
    this.#process.on("error", ({ message }) => this.#lines.stderr.push(message));
    // The event `exit` may come before the last lines of output are read.
    const closed = new Promise((resolve) => this.#process.on("close", resolve));
    void Promise.all([closed, ...outputs]).then(() => {
      running.delete(this);
      this.#isOver = true;
      this.#ended.resolve();
      for (const listener of this.#listeners) listener(undefined);
    });
  }

  async #read(name: "stdout" | "stderr"): Promise<void> {
    const stream = this.#process[name];
    const lines = createInterface(stream);
    // The stream of a process that did not start closes without an `end` event.
    stream.on("close", () => lines.close());
    const kept = this.#lines[name];
    for await (const line of lines) {
      if (kept.push(line) > KEPT_LINES) kept.shift();
      for (const listener of this.#listeners) listener(line);
    }
  }

  /** Runs a command until it ends. @returns the last line of its output; throws if the exit code is not 0 */
  static async run(command: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<string> {
    const child = new Child(command, { env });
    await child.#ended.promise;
    if (child.#process.exitCode !== 0) throw child.failure();
    return child.#lines.stdout.at(-1) ?? "";
  }

  get pid(): number {
    return this.#process.pid ?? Number.NaN;
  }

  get hasEnded(): boolean {
    return this.#process.exitCode !== null || this.#process.signalCode !== null;
  }

  /** Resolves with the next line of output that matches; rejects if the process ends first. */
  line(pattern: RegExp): Promise<RegExpExecArray> {
    const { promise, resolve, reject } = Promise.withResolvers<RegExpExecArray>();
    const listener = (line: string | undefined) => {
      const match = line === undefined ? null : pattern.exec(line);
      if (match !== null) resolve(match);
      else if (line === undefined) reject(this.failure());
    };
    if (this.#isOver) reject(this.failure());
    this.#listeners.add(listener);
    return promise.finally(() => this.#listeners.delete(listener));
  }

  /** Sends a request as a line of JSON. @returns the next line of JSON that the process prints */
  async ask(request: unknown): Promise<unknown> {
    const answer = this.line(/^\{.*\}$/);
    this.#process.stdin.write(`${JSON.stringify(request)}\n`);
    return JSON.parse((await answer)[0]);
  }

  /** An error with the last lines of output. It says how the process ended, or `what` if the process still runs. */
  failure(what = "goes on"): Error {
    const { exitCode, signalCode } = this.#process;
    const how = this.hasEnded ? `ended with ${signalCode ?? `code ${exitCode}`}` : what;
    const { stdout, stderr } = this.#lines;
    return new Error([`this ${how}: ${this.#command.join(" ")}`, ...stdout, ...stderr].join("\n"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.signal("SIGTERM");
    const end = performance.now() + this.#stopMs;
    while (this.signal(0) && performance.now() < end) await Bun.sleep(20);
    this.signal("SIGKILL");
    await this.#ended.promise;
  }

  signal(signal: NodeJS.Signals | 0): boolean {
    try {
      return process.kill(-this.pid, signal);
    } catch {
      return false;
    }
  }
}

// Children in other process groups do not get the signals of this program, so they are killed here.
for (const name of ["SIGHUP", "SIGINT", "SIGTERM"] as const) {
  process.on(name, () => {
    for (const child of running) child.signal("SIGKILL");
    process.exit(128 + constants.signals[name]);
  });
}
