/** One child process in a role, as its supervisor sees it. */
import { isLogJson, log, logOptions } from "../../base/log.ts";
import { passLines } from "./child-output.ts";
import { roleArgument } from "./link.ts";
import { type FromChild, fromChild, type ToChild } from "./messages.ts";
import { thisProgram } from "./program.ts";

export interface ChildOptions {
  readonly role: string;
  /** What the role gets, as JSON: not on the command line, which every user of the machine can read. */
  readonly start: unknown;
  /** Command line to which the role is added; by default this program. */
  readonly program?: readonly string[];
  /** Environment variables, where this process has none of these names. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  onMessage(message: FromChild): void;
  /** Called once, after the last message. */
  onEnd(end: ChildEnd): void;
}

export interface ChildEnd {
  readonly exitCode: number | null;
  readonly signal: Bun.Subprocess["signalCode"];
}

/** What a process sent before it ended arrives at once; this is for one whose connection something else holds open. */
const LAST_MESSAGES_MS = 1000;

export class Child {
  readonly #process: Bun.Subprocess<"ignore", "inherit", "inherit" | "pipe">;
  readonly #disconnected = Promise.withResolvers<void>();
  /** All that it wrote to standard error is passed on. */
  readonly #said: Promise<void> = Promise.resolve();

  /** @throws Error when the system starts no process */
  constructor({ role, start, program = thisProgram(), env, onMessage, onEnd }: ChildOptions) {
    this.#process = Bun.spawn([...program, roleArgument(role)], {
      argv0: "sconce",
      // As it is now: by default Bun gives the one that this process was started with.
      env: { ...env, ...process.env },
      stdio: ["ignore", "inherit", isLogJson() ? "pipe" : "inherit"],
      serialization: "json",
      ipc: (raw: unknown) => {
        const message = fromChild.safeParse(raw);
        if (message.success) onMessage(message.data);
        else log.debug(`The ${role} process sent what is no message: ${message.error.message}`);
      },
      onDisconnect: () => this.#disconnected.resolve(),
    });
    const { stderr } = this.#process;
    if (stderr !== undefined) this.#said = passLines(stderr, `${role} process`);
    this.send({ kind: "start", start, supervisorPid: process.pid, log: logOptions() });
    void this.#end(onEnd);
  }

  get hasEnded(): boolean {
    return this.#process.exitCode !== null || this.#process.signalCode !== null;
  }

  /** To one that has just ended nothing can be sent; its end will be told. */
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
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, LAST_MESSAGES_MS);
    await Promise.race([Promise.all([this.#disconnected.promise, this.#said]), late.promise]);
    clearTimeout(timer);
    onEnd({ exitCode: this.#process.exitCode, signal: this.#process.signalCode });
  }
}
