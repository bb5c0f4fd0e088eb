/** A process of the benchmark: asked in lines on its standard input, heard in lines of its output, ended with all that it started. */
import { root } from "../scripts/setup/step.ts";

interface Listener {
  readonly pattern: RegExp;
  readonly resolve: (match: RegExpExecArray) => void;
  readonly reject: (error: Error) => void;
}

export interface ChildOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** What a server that is drained, or hangs, is given before it is ended. */
  readonly stopMs?: number;
}

const KEPT_LINES = 40;
const signals = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;
const running = new Set<Child>();

export class Child implements AsyncDisposable {
  readonly #command: readonly string[];
  readonly #process: Bun.Subprocess<"pipe", "pipe", "pipe">;
  readonly #stopMs: number;
  readonly #ended: Promise<void>;
  #lines: string[] = [];
  #listeners: Listener[] = [];

  constructor(command: readonly string[], { env = {}, cwd = root, stopMs = 10_000 }: ChildOptions = {}) {
    this.#command = command;
    this.#stopMs = stopMs;
    this.#process = Bun.spawn([...command], {
      cwd,
      env: { ...process.env, ...env },
      stdin: "pipe",
      stdout: "pipe",
      stderr: "pipe",
      // A group of its own, which ends as a whole, whatever the process started: pytriton, ended alone, leaves its server behind.
      detached: true,
    });
    running.add(this);
    this.#ended = this.#listen().finally(() => running.delete(this));
  }

  /** Runs a command to its end and gives its last line. */
  static async run(command: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<string> {
    const child = new Child(command, { env });
    await child.#ended;
    if (child.#process.exitCode !== 0) throw child.failure();
    return child.#lines.at(-1) ?? "";
  }

  get pid(): number {
    return this.#process.pid;
  }

  get hasEnded(): boolean {
    return this.#process.exitCode !== null || this.#process.signalCode !== null;
  }

  /** The next line that matches; rejects when the process ends before it comes. */
  heard(pattern: RegExp): Promise<RegExpExecArray> {
    return new Promise((resolve, reject) => {
      if (this.hasEnded) reject(this.failure());
      else this.#listeners.push({ pattern, resolve, reject });
    });
  }

  /** Sends a line of JSON and gives the line of JSON that answers it. */
  async ask(request: unknown): Promise<unknown> {
    const answer = this.heard(/^\{.*\}$/);
    this.#process.stdin.write(`${JSON.stringify(request)}\n`);
    await this.#process.stdin.flush();
    return JSON.parse((await answer)[0]);
  }

  /** An error that says how the process fared, with the end of what it printed. */
  failure(what = "goes on"): Error {
    const { exitCode, signalCode } = this.#process;
    const how = this.hasEnded ? `ended with ${signalCode ?? `code ${exitCode}`}` : what;
    return new Error([`this ${how}: ${this.#command.join(" ")}`, ...this.#lines.slice(-KEPT_LINES)].join("\n"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.signal("SIGTERM");
    const end = performance.now() + this.#stopMs;
    while (this.signal(0) && performance.now() < end) await Bun.sleep(20);
    this.signal("SIGKILL");
    await this.#ended;
  }

  /** @returns whether there still is a process in the group */
  signal(signal: NodeJS.Signals | 0): boolean {
    try {
      return process.kill(-this.#process.pid, signal);
    } catch {
      return false;
    }
  }

  async #listen(): Promise<void> {
    await Promise.all([this.#read(this.#process.stdout), this.#read(this.#process.stderr), this.#process.exited]);
    for (const { reject } of this.#listeners.splice(0)) reject(this.failure());
  }

  async #read(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    let rest = "";
    for await (const chunk of stream) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) this.#hear(line);
    }
    if (rest !== "") this.#hear(rest);
  }

  #hear(line: string): void {
    this.#lines.push(line);
    if (this.#lines.length > 2 * KEPT_LINES) this.#lines = this.#lines.slice(-KEPT_LINES);
    for (const listener of this.#listeners) {
      const match = listener.pattern.exec(line);
      if (match === null) continue;
      this.#listeners = this.#listeners.filter((other) => other !== listener);
      listener.resolve(match);
    }
  }
}

// A terminal interrupts the group of this program only, and a signal may be for this process alone.
for (const [name, code] of Object.entries(signals)) {
  process.on(name, () => {
    for (const child of running) child.signal("SIGKILL");
    process.exit(128 + code);
  });
}
