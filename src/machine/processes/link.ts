/** Runs a role in a child process and connects it with its supervisor. */
import { SconceError } from "../../base/errors.ts";
import { exitProcess } from "../../base/exit.ts";
import { configureLog, log } from "../../base/log.ts";
import { type FromChild, reportOf, type ToChild, toChild } from "./messages.ts";
import { dieNow, dieWithParent } from "./parent-death.ts";

/** A role's connection to its supervisor. */
export interface Link {
  /** Reports that the role now does its work. @param info passed to the supervisor */
  ready(info?: unknown): void;
  /** Starts the watchdog early, for roles that run author's code before they are ready. */
  setUp(): void;
  send(message: unknown): void;
  /** Sets the handler; it gets earlier messages at once. A later handler replaces an earlier one. */
  onMessage(handler: (message: unknown) => void): void;
  /** Resolves when the role must end. The supervisor kills a role that takes too long. */
  readonly stopping: Promise<void>;
  /** Sets the answer to the watchdog: how long the oldest batch has been running, 0 without a batch. */
  onAsk(runningForMs: () => number): void;
}

/**
 * The work of a child process, which lives until the promise settles. The supervisor gets errors before `link.ready()`.
 * @param start unchecked JSON from the supervisor
 */
export type Role = (start: unknown, link: Link) => Promise<void>;
export type Roles = Readonly<Record<string, Role>>;

/** The role that a command line (without the program's name) names. */
export function roleOf([first = ""]: readonly string[]): string | undefined {
  return /^\[([a-z-]+)\]$/.exec(first)?.[1];
}

/** The argument that names a role, visible in `ps`. */
export function roleArgument(role: string): string {
  return `[${role}]`;
}

/**
 * Runs a role, then exits the process.
 * @throws SconceError `usage` when no supervisor started this process, or there is no such role
 */
export async function runRole(roles: Roles, name: string): Promise<never> {
  const role = Object.hasOwn(roles, name) ? roles[name] : undefined;
  if (process.send === undefined || role === undefined) {
    throw new SconceError("usage", `${roleArgument(name)} is a process that the server starts by itself; run serve`);
  }
  // Terminals and service managers signal all processes of the server. Only the supervisor reacts, by draining.
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
  #handler: ((message: unknown) => void) | undefined;
  #unhandled: unknown[] = [];
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
    void this.post({ kind: "message", message });
  }

  onMessage(handler: (message: unknown) => void): void {
    this.#handler = handler;
    for (const message of this.#unhandled.splice(0)) handler(message);
  }

  onAsk(runningForMs: () => number): void {
    this.#runningForMs = runningForMs;
  }

  /** Resolves when the message is written. An exit before that loses it. */
  post(message: FromChild): Promise<void> {
    return new Promise((resolve) => process.send?.(message, undefined, undefined, () => resolve()));
  }

  #handle(message: Exclude<ToChild, { kind: "start" }>): void {
    switch (message.kind) {
      case "stop":
        this.#stopping.resolve();
        break;
      case "ask":
        void this.post({ kind: "running", runningForMs: this.#runningForMs() });
        break;
      case "message":
        if (this.#handler === undefined) this.#unhandled.push(message.message);
        else this.#handler(message.message);
    }
  }
}
