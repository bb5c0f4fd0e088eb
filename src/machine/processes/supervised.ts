/** Keeps a child process alive: starts it again with growing delays when it dies, and kills it when it is stuck. */
import { type Clock, monotonicClock } from "../../base/clock.ts";
import { messageOf, SconceError } from "../../base/errors.ts";
import type { RestartCause } from "../../base/labels.ts";
import { log } from "../../base/log.ts";
import { Backoff } from "./backoff.ts";
import { Child, type ChildEnd, type ChildOptions } from "./child.ts";
import { type Death, deathOf, OomKills } from "./death-reason.ts";
import { answerOf, type FromChild, Questions } from "./messages.ts";
import { Watchdog } from "./watchdog.ts";

/** Number of deaths before the first `ready` after which no further start is tried. */
const FIRST_STARTS = 3;

export interface SupervisedOptions {
  readonly role: string;
  /** Name in logs and errors, e.g. "front process 2". Default: the role and "process". */
  readonly name?: string;
  /** Shown by `ps` after the role. */
  readonly title?: string | undefined;
  /** Called at each start. @returns JSON value that the role gets */
  start(): unknown;
  /** Command line to run; the role is appended. Default: this program. */
  readonly program?: readonly string[];
  readonly env?: ChildOptions["env"];
  /** Longest run of a batch, and longest wait for an answer, in milliseconds. Without it there is no watchdog. */
  readonly stuckAfterMs?: number | undefined;
  /** Called each time the process becomes ready. */
  onReady?(info: unknown): void;
  /** Called with each message. For a question, the result is the answer. */
  onMessage?(message: unknown): unknown;
  /**
   * Called when the process has ended: before each restart, and after `stop`. Not called when the first start is given
   * up.
   * @param reason predicate such as "was ended by SIGKILL", to follow "the engine process"
   * @param cause undefined for a process that `stop` ended
   */
  onEnd?(reason: string, cause: RestartCause | undefined): void;
  readonly clock?: Clock;
  readonly backoff?: Backoff;
}

interface Running {
  readonly child: Child;
  readonly watchdog: Watchdog | undefined;
  readySinceMs: number | undefined;
  /** The failure that the process reported itself. */
  failure: SconceError | undefined;
  /** The reason for which the supervisor killed the process. */
  endedFor: string | undefined;
}

/** Shared by all child processes: a rise of the kernel's count explains the death of only one process. */
const oomKills = new OomKills();

export class Supervised {
  readonly #options: SupervisedOptions;
  readonly #name: string;
  readonly #clock: Clock;
  readonly #backoff: Backoff;
  readonly #first = Promise.withResolvers<unknown>();
  readonly #stopped = Promise.withResolvers<void>();
  #state: "idle" | "first start" | "up" | "stopping" | "over" = "idle";
  #firstDeaths = 0;
  #running: Running | undefined;
  readonly #questions = new Questions();
  #cancelRestart: (() => void) | undefined;

  constructor(options: SupervisedOptions) {
    this.#options = options;
    this.#name = options.name ?? `${options.role} process`;
    this.#clock = options.clock ?? monotonicClock;
    this.#backoff = options.backoff ?? new Backoff();
  }

  /**
   * Starts the process. Resolves at its first `ready`, with the value of `ready`.
   * @throws SconceError the failure that the process reported; `processes_unavailable` after several deaths without a
   * report; `canceled` if `stop` came first
   */
  start(): Promise<unknown> {
    if (this.#state === "idle") {
      this.#state = "first start";
      this.#spawn();
    }
    return this.#first.promise;
  }

  /** Sends a question. @returns the answer; undefined if the process does not run, or ends before it answers */
  async ask(message: unknown): Promise<unknown> {
    const child = this.#running?.child;
    return child && this.#questions.ask(message, (question) => child.send(question));
  }

  /** Kills the process, which then starts again. */
  restart(reason: string): void {
    if (this.#running === undefined) return;
    this.#running.endedFor ??= reason;
    this.#running.child.kill();
  }

  /**
   * Asks the process to end, and kills it after `limitMs`. Resolves when it has ended. A second call may shorten the
   * limit.
   */
  async stop(limitMs: number): Promise<void> {
    this.#cancelRestart?.();
    const running = this.#running;
    if (running === undefined) this.#over();
    if (this.#state === "over" || running === undefined) return this.#stopped.promise;
    this.#state = "stopping";
    // The watchdog stays active until the process ends.
    running.child.send({ kind: "stop" });
    const cancel = this.#clock.after(limitMs, () => {
      if (limitMs > 0) log.warn(`The ${this.#name} did not stop within ${limitMs / 1000} s and is killed`);
      running.child.kill();
    });
    await this.#stopped.promise;
    cancel();
  }

  #spawn(): void {
    const { role, title, start, program, env, stuckAfterMs } = this.#options;
    let child: Child;
    try {
      child = new Child({
        role,
        name: this.#name,
        title,
        start: start(),
        env,
        ...(program === undefined ? {} : { program }),
        onMessage: (message) => this.#handle(running, message),
        onEnd: (end) => this.#ended(running, end),
      });
    } catch (error) {
      this.#died({ reason: `could not be started (${messageOf(error)})`, cause: "setup" }, 0);
      return;
    }
    const running: Running = {
      child,
      watchdog:
        stuckAfterMs === undefined
          ? undefined
          : new Watchdog({
              limitMs: stuckAfterMs,
              ask: () => this.#questions.ask(undefined, (question) => child.send(question)),
              onStuck: (reason) => this.restart(reason),
              clock: this.#clock,
            }),
      readySinceMs: undefined,
      failure: undefined,
      endedFor: undefined,
    };
    this.#running = running;
  }

  #handle(running: Running, message: FromChild): void {
    switch (message.kind) {
      case "set-up":
        running.watchdog?.start();
        break;
      case "ready":
        this.#ready(running, message.info);
        break;
      case "failed": {
        const { code = "processes_unavailable", message: text, clientMessage } = message.error;
        running.failure = new SconceError(code, text, { clientMessage });
        break;
      }
      case "answer":
        this.#questions.answered(message);
        break;
      case "question":
        void answerOf(message, this.#options.onMessage).then((answer) => running.child.send(answer));
    }
  }

  #ready(running: Running, info: unknown): void {
    if (running.readySinceMs !== undefined || this.#state === "stopping") return;
    running.readySinceMs = this.#clock.now();
    // Starts the watchdog at `ready`, because the set-up of a large model takes long.
    running.watchdog?.start();
    if (this.#state === "up") log.info(`The ${this.#name} is ready again`);
    this.#state = "up";
    this.#options.onReady?.(info);
    this.#first.resolve(info);
  }

  #ended({ watchdog, readySinceMs, failure, endedFor }: Running, end: ChildEnd): void {
    watchdog?.stop();
    this.#running = undefined;
    this.#questions.end();
    const death = deathOf(end, oomKills);
    if (this.#state === "stopping") {
      this.#options.onEnd?.("was stopped", undefined);
      this.#over();
      return;
    }
    if (failure !== undefined && this.#state === "first start") {
      this.#first.reject(failure);
      this.#over();
      return;
    }
    const upMs = readySinceMs === undefined ? 0 : this.#clock.now() - readySinceMs;
    if (failure !== undefined) this.#died({ reason: `failed: ${failure.message}`, cause: "setup" }, upMs);
    else if (endedFor !== undefined) this.#died({ reason: `was ended: ${endedFor}`, cause: "stuck" }, upMs);
    else this.#died(death, upMs);
  }

  #died({ reason, cause }: Death, upMs: number): void {
    if (this.#state === "first start" && ++this.#firstDeaths === FIRST_STARTS) {
      const times = `${FIRST_STARTS} times before it was ready`;
      this.#first.reject(new SconceError("processes_unavailable", `the ${this.#name} ${reason}, ${times}`));
      this.#over();
      return;
    }
    const delayMs = this.#backoff.nextMs(upMs);
    const again = delayMs === 0 ? "starting it again" : `starting it again in ${(delayMs / 1000).toFixed(1)} s`;
    log.error(`The ${this.#name} ${reason}; ${again}`);
    // Uses a timer even without a delay, because `onEnd` may call `stop`.
    this.#cancelRestart = this.#clock.after(delayMs, () => this.#spawn());
    this.#options.onEnd?.(reason, cause);
  }

  #over(): void {
    this.#state = "over";
    this.#first.reject(new SconceError("canceled", `the ${this.#name} was stopped before it was ready`));
    // Avoids an unhandled rejection if no caller has awaited `start`.
    this.#first.promise.catch(() => {});
    this.#stopped.resolve();
  }
}
