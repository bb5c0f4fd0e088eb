/** Runs a role in this child process and connects it with its parent, the supervisor. */
import { SconceError } from "../../base/errors.ts";
import { configureLog, log } from "../../base/log.ts";
import { exitProcess } from "./exit.ts";
import { answerOf, type FromChild, type Question, Questions, reportOf, type ToChild, toChild } from "./messages.ts";
import { dieNow, dieWithParent } from "./parent-death.ts";

/** A role's connection to the supervisor. */
export interface Link {
  /** Reports that the role is ready for work. @param info value for the supervisor */
  ready(info?: unknown): void;
  /** Starts the supervisor's watchdog early, for a role that runs author's code before it is ready. */
  setUp(): void;
  /** Sends a message without waiting for an answer. */
  send(message: unknown): void;
  /** Sends a question. @returns the supervisor's answer */
  ask(message: unknown): Promise<unknown>;
  /**
   * Sets the handler of messages, which gets earlier messages at once. A later handler replaces it. For a question, its
   * result is the answer.
   */
  onMessage(handler: (message: unknown) => unknown): void;
  /** Resolves when the role must end. If the role takes too long, the supervisor kills the process. */
  readonly stopping: Promise<void>;
  /**
   * Sets the function that answers the watchdog: milliseconds that the oldest batch has been running, 0 without a
   * batch.
   */
  onAsk(runningForMs: () => number): void;
}

/**
 * The work of a child process. The process ends when the promise settles. A rejection goes to the supervisor, and after
 * `link.ready()` to the log too.
 * @param start JSON value from the supervisor, not yet validated
 */
export type Role = (start: unknown, link: Link) => Promise<void>;
export type Roles = Readonly<Record<string, Role>>;

/**
 * The role in a command line without the program's name: the first argument, as in `[engine]`. Undefined without a
 * role.
 */
export function roleOf([first = ""]: readonly string[]): string | undefined {
  return /^\[([a-z-]+)\]$/.exec(first)?.[1];
}

/** The argument that names a role. `ps` shows it. */
export function roleArgument(role: string): string {
  return `[${role}]`;
}

/**
 * Runs a role, then exits the process.
 * @throws SconceError `usage` when no supervisor started this process, or the role does not exist
 */
export async function runRole(roles: Roles, name: string): Promise<never> {
  const role = Object.hasOwn(roles, name) ? roles[name] : undefined;
  if (process.send === undefined || role === undefined) {
    throw new SconceError("usage", `${roleArgument(name)} is a process that the server starts by itself; run serve`);
  }
  // Ignores signals, which terminals and service managers send to all processes of the server. Only the supervisor
  // reacts: it lets requests finish, then stops its child processes.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
  process.on("disconnect", dieNow);
  const link = new SupervisorLink();
  const { start, supervisorPid, log: logOptions } = await link.started;
  dieWithParent(supervisorPid, `sconce-${name}`);
  configureLog(logOptions);
  try {
    await role(start, link);
  } catch (error) {
    if (link.isReady) log.error(`The ${name} process failed:`, error);
    await link.post({ kind: "failed", error: reportOf(error) });
    exitProcess(1);
  }
  exitProcess(0);
}

class SupervisorLink implements Link {
  readonly started: Promise<Extract<ToChild, { kind: "start" }>>;
  isReady = false;
  readonly #stopping = Promise.withResolvers<void>();
  readonly #questions = new Questions();
  #handler: ((message: unknown) => unknown) | undefined;
  #unhandled: Question[] = [];
  #runningForMs = () => 0;

  constructor() {
    const { promise, resolve } = Promise.withResolvers<Extract<ToChild, { kind: "start" }>>();
    this.started = promise;
    process.on("message", (raw: unknown) => {
      const message = toChild.parse(raw);
      if (message.kind === "start") resolve(message);
      else this.#handle(message);
    });
  }

  get stopping(): Promise<void> {
    return this.#stopping.promise;
  }

  ready(info?: unknown): void {
    this.isReady = true;
    void this.post({ kind: "ready", info });
  }

  setUp(): void {
    void this.post({ kind: "set-up" });
  }

  send(message: unknown): void {
    void this.ask(message);
  }

  ask(message: unknown): Promise<unknown> {
    return this.#questions.ask(message, (question) => void this.post(question));
  }

  onMessage(handler: (message: unknown) => unknown): void {
    this.#handler = handler;
    for (const question of this.#unhandled.splice(0)) this.#answer(question, handler);
  }

  onAsk(runningForMs: () => number): void {
    this.#runningForMs = runningForMs;
  }

  /** Sends a message. Resolves when it is written; an exit before that loses the message. */
  post(message: FromChild): Promise<void> {
    return new Promise((resolve) => process.send?.(message, undefined, undefined, () => resolve()));
  }

  #handle(message: Exclude<ToChild, { kind: "start" }>): void {
    switch (message.kind) {
      case "stop":
        this.#stopping.resolve();
        break;
      case "answer":
        this.#questions.answered(message);
        break;
      case "question":
        if (message.message === undefined) this.#answer(message, this.#runningForMs);
        else if (this.#handler === undefined) this.#unhandled.push(message);
        else this.#answer(message, this.#handler);
    }
  }

  #answer(question: Question, handler: (message: unknown) => unknown): void {
    void answerOf(question, handler).then((answer) => this.post(answer));
  }
}
