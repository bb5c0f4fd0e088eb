/** The child's side of a role: runs it, and connects it with its supervisor. */
import { SconceError } from "../../base/errors.ts";
import { exitProcess } from "../../base/exit.ts";
import { configureLog, log } from "../../base/log.ts";
import { type FromChild, type ToChild, toChild } from "./messages.ts";
import { dieNow, dieWithParent } from "./parent-death.ts";
import { tellError } from "./told-error.ts";

/** What a role has of its supervisor. */
export interface Link {
  /** Says that the role does its work from now on. */
  ready(told?: unknown): void;
  /** Says that the watchdog may begin, where author's code runs before the role is ready. */
  setUp(): void;
  send(message: unknown): void;
  /** Messages that came before are handed over at once. One handler: a later one takes the place of the one before. */
  onMessage(handler: (message: unknown) => void): void;
  /** Resolves when the role is to end in order; it is killed when that takes too long. */
  readonly stopping: Promise<void>;
  /** For the watchdog: how long the oldest batch has been running, 0 when none is. */
  onAsk(runningForMs: () => number): void;
}

/**
 * What a child process does: it lives until the promise settles. An error before `link.ready()` is told to the supervisor.
 *
 * @param start what the supervisor gave; to be checked
 */
export type Role = (start: unknown, link: Link) => Promise<void>;
export type Roles = Readonly<Record<string, Role>>;

/** The name of the role that a command line without the program's name asks for. */
export function roleOf([first = ""]: readonly string[]): string | undefined {
  return /^\[([a-z-]+)\]$/.exec(first)?.[1];
}

/** The argument by which a role is asked for; seen in `ps`. */
export function roleArgument(role: string): string {
  return `[${role}]`;
}

/**
 * Runs a role to its end, which is the end of this process.
 *
 * @throws SconceError `usage` when no supervisor started this process, or there is no such role
 */
export async function runRole(roles: Roles, name: string): Promise<never> {
  const role = Object.hasOwn(roles, name) ? roles[name] : undefined;
  if (process.send === undefined || role === undefined) {
    throw new SconceError("usage", `${roleArgument(name)} is a process that the server starts by itself; run serve`);
  }
  // Ctrl-C and the end of a terminal or a service reach every process of the server, and it is the supervisor that drains.
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
    await link.tell({ kind: "failed", error: tellError(error) });
    exitProcess(1);
  }
  exitProcess(0);
}

class SupervisorLink implements Link {
  readonly started: Promise<Extract<ToChild, { kind: "start" }>>;
  isReady = false;
  readonly #stopping = Promise.withResolvers<void>();
  #handler: ((message: unknown) => void) | undefined;
  #early: unknown[] = [];
  #runningForMs = () => 0;

  constructor() {
    const { promise, resolve } = Promise.withResolvers<Extract<ToChild, { kind: "start" }>>();
    this.started = promise;
    process.on("message", (raw: unknown) => {
      const message = toChild.parse(raw);
      if (message.kind === "start") resolve(message);
      else this.#take(message);
    });
  }

  get stopping(): Promise<void> {
    return this.#stopping.promise;
  }

  ready(told?: unknown): void {
    this.isReady = true;
    void this.tell({ kind: "ready", told });
  }

  setUp(): void {
    void this.tell({ kind: "set-up" });
  }

  send(message: unknown): void {
    void this.tell({ kind: "message", message });
  }

  onMessage(handler: (message: unknown) => void): void {
    this.#handler = handler;
    for (const message of this.#early.splice(0)) handler(message);
  }

  onAsk(runningForMs: () => number): void {
    this.#runningForMs = runningForMs;
  }

  /** Resolves when the message is on its way: what is still to be written when the process exits is lost. */
  tell(message: FromChild): Promise<void> {
    return new Promise((resolve) => process.send?.(message, undefined, undefined, () => resolve()));
  }

  #take(message: Exclude<ToChild, { kind: "start" }>): void {
    switch (message.kind) {
      case "stop":
        this.#stopping.resolve();
        break;
      case "ask":
        void this.tell({ kind: "running", runningForMs: this.#runningForMs() });
        break;
      case "message":
        if (this.#handler === undefined) this.#early.push(message.message);
        else this.#handler(message.message);
    }
  }
}
