/** A name that a front serves, with its model. A model that cannot be opened answers with an error. */
import { messageOf } from "../base/errors.ts";
import type { ModelState, Unready } from "../base/labels.ts";
import { log } from "../base/log.ts";
import type { ProblemError } from "../http/problem.ts";
import { notReady } from "../http/routes/health.ts";
import { brokenModel } from "../http/routes/models.ts";
import type { ModelMoves, ServedModel, ServedName } from "../http/served-model.ts";
import { generatedTag } from "../package/store/reference.ts";
import { reasonForClients } from "./broken-model.ts";
import { gaugesOf } from "./front-gauges.ts";
import { FrontModel } from "./front-model.ts";
import type { FrontModelOptions } from "./front-options.ts";
import type { FrontShared } from "./front-shared.ts";
import type { Metrics } from "./metrics/metrics.ts";
import { hindranceOf, servedModel } from "./served-model.ts";

export class ServedEntry implements ServedName {
  readonly #shared: FrontShared;
  /** Options of the build that answers. */
  #options: FrontModelOptions;
  readonly metrics: Metrics;
  /** Undefined until `open`, and for a model that cannot be opened. */
  front: FrontModel | undefined;
  model: ServedModel | ProblemError = notReady("starting");
  /** Why clients cannot use the model; undefined for a usable model. */
  #fault: string | undefined;

  constructor(shared: FrontShared, options: FrontModelOptions) {
    this.#shared = shared;
    this.#options = options;
    this.metrics = options.metrics ?? shared.metrics;
  }

  get name(): string {
    return this.#options.name;
  }

  get digest(): string {
    return this.#options.version.digest;
  }

  get tag(): string {
    return generatedTag(this.digest);
  }

  get state(): ModelState {
    if (this.#fault !== undefined) return "failed";
    return this.#options.engine?.state ?? "ready";
  }

  get reason(): string | undefined {
    return this.#fault ?? (this.state === "failed" ? this.#options.engine?.reason : undefined);
  }

  get unready(): Unready | undefined {
    return this.front === undefined ? "starting" : this.front.lifecycle.unready;
  }

  get moves(): ModelMoves | undefined {
    return this.#options.engine;
  }

  /** Texts in paths that mean the model. */
  get pathNames(): readonly string[] {
    return [this.name, `${this.name}:${this.#options.tag}`, `${this.name}:${this.tag}`];
  }

  /**
   * Opens the model.
   * @param opened gets the model, and closes it when it is disposed
   * @throws SconceError if the server's only model cannot be opened, and no earlier process was ready
   */
  async open(opened: AsyncDisposableStack): Promise<void> {
    const options = this.#options;
    try {
      const front = opened.use(await FrontModel.open(this.#shared, options));
      this.metrics.watch(() => gaugesOf(front));
      front.lifecycle.hindrance = () => hindranceOf(front);
      this.front = front;
      this.model = await servedModel(front);
    } catch (error) {
      const { models, wasReady = false } = this.#shared.options;
      if (models.length === 1 && !wasReady) throw error;
      log.error(`The model ${options.name} cannot be served: ${messageOf(error)}`);
      // The broken model counts as idle for ever, so that its engine process can be unloaded for other models.
      if (options.engine !== undefined) options.engine.predictionsIdleMs = () => Infinity;
      this.#fault = reasonForClients(error);
      this.model = brokenModel(this.#fault);
    }
  }

  /** Opens another build beside the one that answers. @throws SconceError an error of its set-up */
  async openNext(options: FrontModelOptions): Promise<void> {
    if (this.front === undefined) throw new Error("the model cannot be served; restart the server");
    await this.front.openNext({ ...options, metrics: this.metrics });
  }

  /** Gives new requests to the opened build. */
  async switchToNext(): Promise<void> {
    const { front } = this;
    if (front === undefined) return;
    front.switchToNext();
    this.#options = front.options;
    this.model = await servedModel(front);
  }
}
