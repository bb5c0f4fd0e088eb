/** A child process that is kept alive: started again when it dies, later and later, and ended when it is stuck. */

import { type Clock, monotonicClock } from "../../base/clock.ts";
import { messageOf, SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { Backoff } from "./backoff.ts";
import { Child, type ChildEnd, type ChildOptions } from "./child.ts";
import { deathReason, OomKills } from "./death-reason.ts";
import type { FromChild } from "./messages.ts";
import { Watchdog } from "./watchdog.ts";

/** Deaths in a row of a process that has never been ready, after which it is given up. */
const FIRST_STARTS = 3;

export interface SupervisedOptions {
  readonly role: string;
  /** As logs and errors call it, e.g. "front process 2"; by default "engine process" for the role `engine`. */
  readonly name?: string;
  /** What the role gets, made anew for each start. */
  start(): unknown;
  /** Command line to which the role is added; by default this program. */
  readonly program?: readonly string[];
  readonly env?: ChildOptions["env"];
  /** Longest time that a batch may run, and that the process may take for an answer; without it nobody asks. */
  readonly batchTimeoutMs?: number | undefined;
  /** Each time the process does its work from now on. */
  onReady?(told: unknown): void;
  onMessage?(message: unknown): void;
  /**
   * Each time the process has ended, before it is started again.
   * @param reason follows "the engine process"
   * @param isStuck whether it was ended because it was stuck
   */
  onEnd?(reason: string, isStuck: boolean): void;
  readonly clock?: Clock;
  readonly backoff?: Backoff;
}

interface Running {
  readonly child: Child;
  readonly watchdog: Watchdog | undefined;
  readySinceMs: number | undefined;
  /** What the process told of its failure. */
  failure: SconceError | undefined;
  /** Why this process ended it. */
  endedFor: string | undefined;
}

/** One for all children, so that no death is laid at the door of an earlier one. */
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
  #cancelRestart: (() => void) | undefined;

  constructor(options: SupervisedOptions) {
    this.#options = options;
    this.#name = options.name ?? `${options.role} process`;
    this.#clock = options.clock ?? monotonicClock;
    this.#backoff = options.backoff ?? new Backoff();
  }

  /**
   * Resolves with what the process told when it was ready for the first time.
   *
   * @throws SconceError what the process told of its failure, `processes_unavailable` when it dies again and again without a word,
   * `canceled` when it was stopped first
   */
  start(): Promise<unknown> {
    if (this.#state === "idle") {
      this.#state = "first start";
      this.#spawn();
    }
    return this.#first.promise;
  }

  /** What is sent to a process that does not run is lost. */
  send(message: unknown): void {
    this.#running?.child.send({ kind: "message", message });
  }

  /** Ends the process as if it had died: it is started again. */
  restart(reason: string): void {
    if (this.#running === undefined) return;
    this.#running.endedFor ??= reason;
    this.#running.child.kill();
  }

  /** Lets the process end in order, and ends it after `limitMs`. Resolves when it is gone; may be called again with a shorter limit. */
  async stop(limitMs: number): Promise<void> {
    this.#cancelRestart?.();
    const running = this.#running;
    if (running === undefined) this.#over();
    if (this.#state === "over" || running === undefined) return this.#stopped.promise;
    this.#state = "stopping";
    // What is stuck is ended meanwhile, too.
    running.child.send({ kind: "stop" });
    const cancel = this.#clock.after(limitMs, () => {
      if (limitMs > 0) log.warn(`The ${this.#name} did not stop within ${limitMs / 1000} s and is ended`);
      running.child.kill();
    });
    await this.#stopped.promise;
    cancel();
  }

  #spawn(): void {
    const { role, start, program, env, batchTimeoutMs } = this.#options;
    let child: Child;
    try {
      child = new Child({
        role,
        start: start(),
        env,
        ...(program === undefined ? {} : { program }),
        onMessage: (message) => this.#take(running, message),
        onEnd: (end) => this.#ended(running, end),
      });
    } catch (error) {
      this.#died(`could not be started (${messageOf(error)})`, 0);
      return;
    }
    const running: Running = {
      child,
      watchdog:
        batchTimeoutMs === undefined
          ? undefined
          : new Watchdog({
              limitMs: batchTimeoutMs,
              ask: () => child.send({ kind: "ask" }),
              onStuck: (reason) => this.restart(reason),
              clock: this.#clock,
            }),
      readySinceMs: undefined,
      failure: undefined,
      endedFor: undefined,
    };
    this.#running = running;
  }

  #take(running: Running, message: FromChild): void {
    switch (message.kind) {
      case "set-up":
        running.watchdog?.start();
        break;
      case "ready":
        this.#ready(running, message.told);
        break;
      case "failed": {
        const { code = "processes_unavailable", message: text } = message.error;
        running.failure = new SconceError(code, text);
        break;
      }
      case "running":
        running.watchdog?.answered(message.runningForMs);
        break;
      case "message":
        this.#options.onMessage?.(message.message);
    }
  }

  #ready(running: Running, told: unknown): void {
    if (running.readySinceMs !== undefined || this.#state === "stopping") return;
    running.readySinceMs = this.#clock.now();
    // Not before: setting up takes as long as the model is large.
    running.watchdog?.start();
    if (this.#state === "up") log.info(`The ${this.#name} is ready again`);
    this.#state = "up";
    this.#options.onReady?.(told);
    this.#first.resolve(told);
  }

  #ended({ watchdog, readySinceMs, failure, endedFor }: Running, end: ChildEnd): void {
    watchdog?.stop();
    this.#running = undefined;
    const death = deathReason(end, oomKills);
    if (this.#state === "stopping") {
      this.#options.onEnd?.("was stopped", false);
      this.#over();
      return;
    }
    if (failure !== undefined && this.#state === "first start") {
      this.#first.reject(failure);
      this.#over();
      return;
    }
    const reason = endedFor === undefined ? death : `was ended: ${endedFor}`;
    const upMs = readySinceMs === undefined ? 0 : this.#clock.now() - readySinceMs;
    this.#died(failure === undefined ? reason : `failed: ${failure.message}`, upMs, endedFor !== undefined);
  }

  #died(reason: string, upMs: number, isStuck = false): void {
    if (this.#state === "first start" && ++this.#firstDeaths === FIRST_STARTS) {
      const times = `${FIRST_STARTS} times before it was ready`;
      this.#first.reject(new SconceError("processes_unavailable", `the ${this.#name} ${reason}, ${times}`));
      this.#over();
      return;
    }
    const delayMs = this.#backoff.nextMs(upMs);
    const again = delayMs === 0 ? "starting it again" : `starting it again in ${(delayMs / 1000).toFixed(1)} s`;
    log.error(`The ${this.#name} ${reason}; ${again}`);
    // Also where it comes at once: whoever hears of the end may stop it.
    this.#cancelRestart = this.#clock.after(delayMs, () => this.#spawn());
    this.#options.onEnd?.(reason, isStuck);
  }

  #over(): void {
    this.#state = "over";
    this.#first.reject(new SconceError("canceled", `the ${this.#name} was stopped before it was ready`));
    // Nobody need have waited for it.
    this.#first.promise.catch(() => {});
    this.#stopped.resolve();
  }
}
