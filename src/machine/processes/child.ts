/** Starts a child process that runs one role of the server, such as `engine`, and exchanges messages with it. */
import { isLogJson, log, logOptions } from "../../base/log.ts";
import { roleArgument } from "./link.ts";
import { type FromChild, fromChild, type ToChild } from "./messages.ts";
import { thisProgram } from "./program.ts";

export interface ChildOptions {
  readonly role: string;
  /** Name in log lines, e.g. "front process 2". */
  readonly name: string;
  /** Shown by `ps` after the role. */
  readonly title?: string | undefined;
  /**
   * JSON value that the role gets. The value goes as a message, because every user of the machine can read command
   * lines.
   */
  readonly start: unknown;
  /** Command line to run; the role is appended. Default: this program. */
  readonly program?: readonly string[];
  /** Defaults of environment variables. Variables of this process take precedence. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  onMessage(message: FromChild): void;
  /** Called once, after the last message of the child. */
  onEnd(end: ChildEnd): void;
}

export interface ChildEnd {
  readonly exitCode: number | null;
  readonly signal: Bun.Subprocess["signalCode"];
}

/** Settings of Bun's memory management that shorten the waits of requests. */
const MEMORY_ENV = {
  // A background thread of the allocator scans the memory of each thread for pages to return to the kernel. The
  // scanned thread cannot start a request during the scan. Both defaults are 100 ms.
  MIMALLOC_PURGE_HOLES_MIN_INTERVAL: "10000",
  MIMALLOC_PURGE_DELAY: "1000",
  // Concurrent collector threads compete with models for the cores. Without these threads, collections pause
  // JavaScript: a young collection for 2 ms and a full one for 14 ms, with a heap of 140 MB on two cores.
  BUN_JSC_useConcurrentGC: "0",
  // JavaScriptCore frees the remaining dead objects 100 ms after a young collection, in one step of up to 10 ms. With
  // 0.01, the next young collection mostly comes before, and new objects free dead ones in small steps. The 99th
  // percentile of small requests is a third shorter than with the default 0.0025.
  BUN_JSC_percentCPUPerMBForEdenTimer: "0.01",
};

/** Limit of the wait for the child's last messages. A grandchild may keep the connection open. */
const LAST_MESSAGES_MS = 1000;

export class Child {
  readonly #process: Bun.Subprocess<"ignore", "inherit", "inherit" | "pipe">;
  readonly #disconnected = Promise.withResolvers<void>();
  /** Resolves once all of the child's standard error is forwarded. */
  readonly #forwarded: Promise<void> = Promise.resolve();

  /** Starts the process. @throws Error when the system cannot start it */
  constructor({ role, name, title, start, program = thisProgram(), env, onMessage, onEnd }: ChildOptions) {
    this.#process = Bun.spawn([...program, roleArgument(role), ...(title === undefined ? [] : [title])], {
      argv0: "sconce",
      // Passes the current environment, because Bun's default is the environment at the start of this process.
      env: { ...MEMORY_ENV, ...env, ...process.env },
      stdio: ["ignore", "inherit", isLogJson() ? "pipe" : "inherit"],
      serialization: "json",
      ipc: (raw: unknown) => {
        const message = fromChild.safeParse(raw);
        if (message.success) onMessage(message.data);
        else log.debug(`The ${name} sent an invalid message: ${message.error.message}`);
      },
      onDisconnect: () => this.#disconnected.resolve(),
    });
    const { stderr } = this.#process;
    if (stderr !== undefined) this.#forwarded = passLines(stderr, name);
    this.send({ kind: "start", start, supervisorPid: process.pid, log: logOptions() });
    void this.#end(onEnd);
  }

  get pid(): number {
    return this.#process.pid;
  }

  get hasEnded(): boolean {
    return this.#process.exitCode !== null || this.#process.signalCode !== null;
  }

  /** Sends a message. A message to an ended process is dropped, and `onEnd` follows. */
  send(message: ToChild): void {
    if (this.hasEnded) return;
    try {
      this.#process.send(message);
    } catch (error) {
      log.debug("A process could not be sent a message:", error);
    }
  }

  kill(): void {
    this.#process.kill("SIGKILL");
  }

  async #end(onEnd: (end: ChildEnd) => void): Promise<void> {
    await this.#process.exited;
    const timedOut = Promise.withResolvers<void>();
    const timer = setTimeout(timedOut.resolve, LAST_MESSAGES_MS);
    await Promise.race([Promise.all([this.#disconnected.promise, this.#forwarded]), timedOut.promise]);
    clearTimeout(timer);
    onEnd({ exitCode: this.#process.exitCode, signal: this.#process.signalCode });
  }
}

/** Longest line in characters. A longer line is split. */
const MAX_LINE_LENGTH = 64 * 1024;

/**
 * Forwards a child's standard error when log lines are JSON. Log lines pass unchanged; other lines, such as crash
 * reports and C++ warnings, become log lines. Resolves at the end of the stream.
 * @param name name of the process in new log lines
 */
async function passLines(stream: ReadableStream<Uint8Array>, name: string): Promise<void> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) pass(line, name);
    if (rest.length <= MAX_LINE_LENGTH) continue;
    pass(rest, name);
    rest = "";
  }
  pass(rest, name);
}

function pass(line: string, name: string): void {
  if (isLogLine(line)) process.stderr.write(`${line}\n`);
  else if (line.trim() !== "") log.warn(`The ${name} wrote: ${Bun.stripANSI(line)}`);
}

function isLogLine(line: string): boolean {
  if (!line.startsWith('{"time":')) return false;
  try {
    JSON.parse(line);
    return true;
  } catch {
    return false;
  }
}
