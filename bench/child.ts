/** A process of the benchmark: asked in lines on its standard input, heard in lines of its output, ended with all that it started. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { constants } from "node:os";
import { createInterface } from "node:readline";
import { root } from "../scripts/setup/step.ts";

export interface ChildOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** What a server that is drained, or hangs, is given before it is ended. */
  readonly stopMs?: number;
}

const KEPT_LINES = 40;
const running = new Set<Child>();

export class Child implements AsyncDisposable {
  readonly #command: readonly string[];
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #stopMs: number;
  /** With all that it printed heard. */
  readonly #ended = Promise.withResolvers<void>();
  #isOver = false;
  /** Called with each line, and with undefined at the end. */
  readonly #listeners = new Set<(line: string | undefined) => void>();
  /** The last of its standard output, and of its standard error: which of the two was first nobody knows. */
  readonly #lines: Readonly<Record<"stdout" | "stderr", string[]>> = { stdout: [], stderr: [] };

  constructor(command: readonly string[], { env = {}, cwd = root, stopMs = 10_000 }: ChildOptions = {}) {
    const [program = "", ...args] = command;
    this.#command = command;
    this.#stopMs = stopMs;
    // A group of its own, which ends as a whole, whatever the process started: pytriton, ended alone, leaves its server behind.
    this.#process = spawn(program, args, { cwd, env: { ...process.env, ...env }, detached: true });
    running.add(this);
    const heard = (["stdout", "stderr"] as const).map((name) => this.#hear(name));
    this.#process.on("error", ({ message }) => this.#lines.stderr.push(message));
    // Its end may be told before the last of its lines.
    const closed = new Promise((resolve) => this.#process.on("close", resolve));
    void Promise.all([closed, ...heard]).then(() => {
      running.delete(this);
      this.#isOver = true;
      this.#ended.resolve();
      for (const listener of this.#listeners) listener(undefined);
    });
  }

  async #hear(name: "stdout" | "stderr"): Promise<void> {
    const stream = this.#process[name];
    const lines = createInterface(stream);
    // That of a process that could not be started closes without an end.
    stream.on("close", () => lines.close());
    const kept = this.#lines[name];
    for await (const line of lines) {
      if (kept.push(line) > KEPT_LINES) kept.shift();
      for (const listener of this.#listeners) listener(line);
    }
  }

  /** Runs a command to its end and gives its last line. */
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

  /** The next line that matches; rejects when the process ends before it comes. */
  heard(pattern: RegExp): Promise<RegExpExecArray> {
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

  /** Sends a line of JSON and gives the line of JSON that answers it. */
  async ask(request: unknown): Promise<unknown> {
    const answer = this.heard(/^\{.*\}$/);
    this.#process.stdin.write(`${JSON.stringify(request)}\n`);
    return JSON.parse((await answer)[0]);
  }

  /** An error that says how the process fared, with the end of what it printed. */
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

  /** @returns whether there still is a process in the group */
  signal(signal: NodeJS.Signals | 0): boolean {
    try {
      return process.kill(-this.pid, signal);
    } catch {
      return false;
    }
  }
}

// A terminal interrupts the group of this program only, and a signal may be for this process alone.
for (const name of ["SIGHUP", "SIGINT", "SIGTERM"] as const) {
  process.on(name, () => {
    for (const child of running) child.signal("SIGKILL");
    process.exit(128 + constants.signals[name]);
  });
}
