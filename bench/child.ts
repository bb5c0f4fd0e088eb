/** A process of the benchmark: it is asked in lines on its standard input, and heard in lines on its output. */
import { readdirSync, readFileSync } from "node:fs";
import { root } from "../scripts/setup/step.ts";
import { endWithUs } from "./end-with-us.ts";

interface Listener {
  readonly pattern: RegExp;
  readonly resolve: (match: RegExpExecArray) => void;
  readonly reject: (error: Error) => void;
}

const KEPT_LINES = 40;
/** What a drained server, or one that hangs, is given before it is ended. */
const STOP_MS = 10_000;

export class Child implements AsyncDisposable {
  readonly #command: readonly string[];
  readonly #process: Bun.Subprocess<"pipe", "pipe", "pipe">;
  readonly #ended: Promise<void>;
  #lines: string[] = [];
  #listeners: Listener[] = [];

  constructor(command: readonly string[], env: Readonly<Record<string, string>> = {}) {
    this.#command = command;
    this.#process = Bun.spawn([...command], {
      cwd: root,
      env: { ...process.env, ...env },
      stdin: "pipe",
      stdout: "pipe",
      stderr: "pipe",
    });
    const release = endWithUs(() => this.#process.kill("SIGTERM"));
    this.#ended = this.#listen().finally(release);
  }

  /** Runs a command to its end and gives its last line. */
  static async run(command: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<string> {
    const child = new Child(command, env);
    await child.#ended;
    if (child.#process.exitCode !== 0) throw child.#failure();
    return child.#lines.at(-1) ?? "";
  }

  /** The next line that matches; rejects when the process ends before it comes. */
  heard(pattern: RegExp): Promise<RegExpExecArray> {
    return new Promise((resolve, reject) => {
      if (this.#process.exitCode !== null) reject(this.#failure());
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

  /** As the function of this name. */
  mainThreadSeconds(): number | undefined {
    return mainThreadSeconds(this.#process.pid);
  }

  /** The processes that it has started. */
  children(): number[] {
    const { pid } = this.#process;
    return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number);
  }

  /** What its threads have done so far, the main one left out. */
  otherThreads(): ReadonlyMap<string, ThreadTimes> {
    return otherThreads(this.#process.pid);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.kill("SIGTERM");
    const timer = setTimeout(() => this.#process.kill("SIGKILL"), STOP_MS);
    await this.#ended;
    clearTimeout(timer);
  }

  async #listen(): Promise<void> {
    await Promise.all([this.#read(this.#process.stdout), this.#read(this.#process.stderr), this.#process.exited]);
    for (const { reject } of this.#listeners.splice(0)) reject(this.#failure());
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

  #failure(): Error {
    const { exitCode, signalCode } = this.#process;
    const lines = this.#lines.slice(-KEPT_LINES).join("\n");
    return new Error(`this ended with ${signalCode ?? `code ${exitCode}`}: ${this.#command.join(" ")}\n${lines}`);
  }
}

/** Seconds of work of a process' main thread, which runs its JS; undefined where the system does not say (it does on Linux). */
export function mainThreadSeconds(pid: number): number | undefined {
  try {
    const [nanoseconds] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ");
    return Number(nanoseconds) / 1e9;
  } catch {
    return undefined;
  }
}

/** Seconds that a thread ran, and that it was ready to and had no core. */
export interface ThreadTimes {
  readonly ran: number;
  readonly waited: number;
}

/** By thread; empty where the system does not say (it does on Linux). */
function otherThreads(pid: number): Map<string, ThreadTimes> {
  const times = new Map<string, ThreadTimes>();
  try {
    for (const thread of readdirSync(`/proc/${pid}/task`)) {
      if (thread === String(pid)) continue;
      const [ran, waited] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ");
      times.set(thread, { ran: Number(ran) / 1e9, waited: Number(waited) / 1e9 });
    }
  } catch {
    // A thread that has just ended; or no such file at all.
  }
  return times;
}
