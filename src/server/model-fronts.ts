/** The HTTP processes of one model: sends them news about its engine process, and asks them questions about it. */
import type { RestartCause } from "../base/labels.ts";
import type { Supervised } from "../machine/processes/supervised.ts";
import type { EngineEvents } from "./engine-link.ts";
import type { LoadedFronts } from "./engine-loads.ts";
import type { EngineNews, EngineQuestion } from "./messages.ts";
import type { Metrics } from "./metrics/metrics.ts";

export interface ModelFrontsOptions {
  readonly model: number;
  readonly fronts: Iterable<Pick<Supervised, "send" | "ask">>;
  readonly metrics?: Metrics | undefined;
}

export class ModelFronts implements EngineEvents, LoadedFronts {
  readonly #options: ModelFrontsOptions;
  #socket: string | undefined;
  /** The last message about the load of the model; undefined once the engine process is ready. */
  #load: EngineNews | undefined;

  constructor(options: ModelFrontsOptions) {
    this.#options = options;
  }

  /** Socket of the engine process; undefined while the process does not run. */
  get socket(): string | undefined {
    return this.#socket;
  }

  ready(socket: string): void {
    this.#socket = socket;
    this.#load = undefined;
    this.#send({ model: this.#options.model, socket });
  }

  ended(reason: string, cause?: RestartCause): void {
    const { model, metrics } = this.#options;
    this.#socket = undefined;
    if (cause !== undefined) metrics?.engineRestarted(cause);
    this.#send({ model, ended: reason });
  }

  silent(isSilent: boolean): void {
    this.#send({ model: this.#options.model, isSilent });
  }

  changed(state: "unloaded" | "loading", isByClient = false): void {
    this.#load = { model: this.#options.model, state, isByClient };
    this.#send(this.#load);
  }

  failed(reason: string): void {
    this.#load = { model: this.#options.model, failed: reason };
    this.#send(this.#load);
  }

  /** Repeats the last news for an HTTP process that starts. */
  repeat(front: Pick<Supervised, "send">): void {
    if (this.#socket !== undefined) {
      front.send({ model: this.#options.model, socket: this.#socket } satisfies EngineNews);
    }
    if (this.#load !== undefined) front.send(this.#load);
  }

  async idleMs(): Promise<number> {
    const answers = await this.#ask("idle");
    return Math.min(...answers.map((idleMs) => (typeof idleMs === "number" ? idleMs : Infinity)));
  }

  async release(): Promise<boolean> {
    const answers = await this.#ask("release");
    const isReleased = !answers.includes(false);
    if (isReleased) this.#socket = undefined;
    else if (this.#socket !== undefined) this.#send({ model: this.#options.model, socket: this.#socket });
    return isReleased;
  }

  #send(news: EngineNews): void {
    for (const front of this.#options.fronts) front.send(news);
  }

  /** Asks all HTTP processes. @returns their answers; undefined for a process that does not run */
  #ask(ask: EngineQuestion["ask"]): Promise<unknown[]> {
    const question: EngineQuestion = { model: this.#options.model, ask };
    return Promise.all([...this.#options.fronts].map((front) => front.ask(question)));
  }
}
