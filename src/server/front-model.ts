/** A name that a front serves, with its model: the build that answers, the parts that outlive a build, or its fault. */
import { decodings, STUCK_MS } from "../author/decoding-gate.ts";
import type { OpenAi } from "../author/openai.ts";
import type { ModelState, Unready } from "../base/labels.ts";
import { log } from "../base/log.ts";
import { until } from "../base/until.ts";
import { shortened } from "../http/openapi/short-example.ts";
import type { ProblemError } from "../http/problem.ts";
import { notReady, type Outage, type Pending } from "../http/routes/health.ts";
import { brokenModel, workerRefusal } from "../http/routes/models.ts";
import type { ModelMoves, ServedModel, ServedName } from "../http/served-model.ts";
import { generatedTag } from "../package/store/reference.ts";
import { frontOf } from "../predictions/ids.ts";
import type { RequestSource } from "../predictions/store.ts";
import { reasonForClients } from "./broken-model.ts";
import { gaugesOf } from "./front-gauges.ts";
import type { FrontShared } from "./front-shared.ts";
import type { Metrics } from "./metrics/metrics.ts";
import { type ModelParts, type OpenModel, openModelParts } from "./model-parts.ts";
import { maxInputsOf } from "./serve-limits.ts";
import type { OpenBuild, ServedBuild } from "./served-build.ts";

export class FrontModel implements ServedName, AsyncDisposable {
  readonly shared: FrontShared;
  readonly metrics: Metrics;
  /** The build that answers. */
  served: ServedBuild;
  /** Undefined until `open`, and for a model that cannot be opened. */
  opened: OpenModel | undefined;
  model: ServedModel | ProblemError;
  /** Why the model cannot be opened. */
  fault: unknown;
  /** A build that a reload has opened, and that answers no requests yet. */
  #next: { readonly served: ServedBuild; readonly build: OpenBuild } | undefined;
  /** Resolves when the build before the current one has ended its predictions, and is closed. */
  earlierEnded: Promise<void> = Promise.resolve();
  /** Whether requests reach the model, or get its fault. */
  #isOpen = false;
  readonly #resources = new AsyncDisposableStack();

  constructor(shared: FrontShared, served: ServedBuild) {
    this.shared = shared;
    this.served = served;
    this.metrics = shared.metricsOf(served.record.counts);
    this.model = notReady(shared.lifecycle.pending ?? "starting");
  }

  get name(): string {
    return this.served.name;
  }

  get digest(): string {
    return this.served.version.digest;
  }

  /** The tag of this build, because `latest` may soon mean another build. */
  get tag(): string {
    return generatedTag(this.digest);
  }

  /** Texts in paths that mean the model. */
  get pathNames(): readonly string[] {
    return [this.name, `${this.name}:${this.served.record.tag}`, `${this.name}:${this.tag}`];
  }

  get state(): ModelState {
    return this.fault === undefined ? this.served.state : "failed";
  }

  get reason(): string | undefined {
    if (this.fault !== undefined) return reasonForClients(this.fault);
    return this.state === "failed" ? this.served.record.reason : undefined;
  }

  get unready(): Unready | undefined {
    const { phase } = this.shared.lifecycle;
    if (this.pending !== undefined || this.opened === undefined) return this.pending ?? "engine";
    return phase === "draining" ? phase : this.outage;
  }

  get pending(): Pending | undefined {
    return this.#isOpen ? undefined : (this.shared.lifecycle.pending ?? "starting");
  }

  /** Why the model cannot finish predictions; undefined if nothing is broken. */
  get outage(): Outage | undefined {
    const { served, opened } = this;
    if (opened === undefined || served.isBroken) return "engine";
    return opened.parts.store.outage ?? (decodings.stuckForMs < STUCK_MS ? undefined : "pictures");
  }

  get moves(): ModelMoves | undefined {
    return this.served.hasEngine ? this.served : undefined;
  }

  /** The current batch size: the engine lowers the configured one if the device has too little memory. */
  get batchSize(): number {
    const { engine, model } = this.opened?.build ?? {};
    return engine?.maxBatchSize ?? this.served.config.batchSize ?? model?.settings.batchSize ?? 1;
  }

  /** Opens the model, without answering requests. A model that cannot be opened has a fault. */
  async open(): Promise<void> {
    const { shared, served, metrics } = this;
    await using opening = new AsyncDisposableStack();
    try {
      await using closing = new AsyncDisposableStack();
      const build = closing.use(await served.open(shared));
      const parts = await openModelParts({ shared, metrics, current: () => this.served, runs: build.runs }, opening);
      // The build closes before the store, since it may still end predictions.
      closing.move();
      this.#resources.use(opening.move());
      this.opened = { parts, build };
      this.#follow(parts);
      metrics.watch(() => gaugesOf(this, { parts, build: this.opened?.build ?? build }));
    } catch (error) {
      // The broken model counts as idle for ever, so that its engine process can be unloaded for other models.
      served.predictionsIdleMs = () => Infinity;
      this.fault = error;
      this.model = brokenModel(reasonForClients(error));
    }
  }

  /**
   * Waits until the server has loaded the model. Continues predictions of an earlier process, and begins to take
   * predictions from the queue in Redis. Then answers requests.
   * @param hasClaim whether no other server runs the predictions of the store; false with --take-over
   */
  async start(hasClaim: boolean): Promise<void> {
    if (this.opened !== undefined) {
      await this.served.started();
      await this.#resume(({ isOwnServer }) => hasClaim || isOwnServer, hasClaim);
      await this.opened.parts.store.shared?.ready();
      this.model = await this.#servedModel(this.opened);
    }
    this.#isOpen = true;
  }

  /** Runs the unfinished predictions of the server that had the port before, and has ended. */
  claim(): Promise<void> {
    return this.#resume(({ isOwnServer }) => !isOwnServer, true);
  }

  /** Opens the next build, while the present build answers. @throws SconceError an error of its set-up */
  async openNext(served: ServedBuild): Promise<void> {
    if (this.opened === undefined) throw new Error("the model cannot be served; restart the server");
    await this.closeNext();
    this.#next = { served, build: await served.open(this.shared) };
  }

  /** Closes a build that `openNext` opened. */
  async closeNext(): Promise<void> {
    const next = this.#next;
    this.#next = undefined;
    await next?.build[Symbol.asyncDispose]();
  }

  /** Gives new predictions to the opened build. The earlier build ends its predictions, and is closed. */
  async switchToNext(): Promise<void> {
    const { opened } = this;
    const next = this.#next;
    // A process that has started since then has opened the new build alone.
    if (opened === undefined || next === undefined) return;
    const earlier = opened.build;
    this.#next = undefined;
    this.served = next.served;
    opened.build = next.build;
    this.#follow(opened.parts);
    const { runs } = next.build;
    this.earlierEnded = opened.parts.predictions.switchTo(runs).then(() => earlier[Symbol.asyncDispose]());
    this.earlierEnded.catch((error: unknown) => log.error(error));
    this.model = await this.#servedModel(opened);
  }

  /** Connects the engine's state with the predictions. */
  #follow({ predictions: { live } }: ModelParts): void {
    this.served.predictionsIdleMs = () => live.idleMs;
    this.served.onFailed = (reason) => live.failAll(`the model could not be loaded: ${reason}`);
  }

  /** @param hasClaim whether no other server sends the webhooks of ended predictions */
  async #resume(isTaken: (source: RequestSource) => boolean, hasClaim: boolean): Promise<void> {
    if (this.opened === undefined) return;
    const { predictions, webhooks } = this.opened.parts;
    const { index, count } = this.shared.start;
    const isOwn = (owner: string) => frontOf(owner, count) === index;
    const resumed = await predictions.resume((source) => isOwn(source.owner) && isTaken(source));
    if (resumed > 0) log.info(`Resuming ${resumed} accepted predictions of ${this.served.label}`);
    if (hasClaim) await webhooks?.resume(isOwn);
  }

  /**
   * Finishes accepted predictions. Then waits a few seconds (`linger`) until clients have read results and receivers
   * have webhooks.
   * @returns latest end of this wait, in `performance.now()` milliseconds
   */
  async drain(): Promise<number> {
    if (this.opened === undefined) return 0;
    const { predictions, webhooks, store } = this.opened.parts;
    const { drainTimeout, linger } = this.served.config;
    // Without a queue, only this server can answer for its predictions.
    const lingerMs = store.shared === undefined ? 1000 * linger : 0;
    await predictions.drain(1000 * (drainTimeout ?? Infinity));
    const lingersUntilMs = performance.now() + lingerMs;
    await until(() => predictions.live.unread.size === 0 && (webhooks?.waiting ?? 0) === 0, lingerMs);
    return lingersUntilMs;
  }

  /** The model for requests. With --role worker, all requests for a model are refused. */
  async #servedModel({ parts, build }: OpenModel): Promise<ServedModel | ProblemError> {
    const { served, metrics, name, tag, digest } = this;
    const { packaged, model, decoder } = build;
    if (served.config.role === "worker") return workerRefusal;
    const { inputSchema, outputSchema, partSchema, demoOutputSchema = outputSchema } = packaged.config;
    const { example, examples = [] } = packaged.config;
    const batchSize = () => this.batchSize;
    return {
      name,
      tag,
      digest,
      description: model.description,
      createdS: Math.floor((packaged.created?.getTime() ?? 0) / 1000),
      openai: openAiOf(build),
      get batchSize() {
        return batchSize();
      },
      maxInputs: maxInputsOf(model, served.config),
      inputSchema,
      outputSchema,
      partSchema,
      demoOutputSchema,
      shortExample: await shortened(example ?? examples[0]),
      examples: [example, ...examples].filter((each) => each !== undefined),
      predictions: parts.predictions,
      metrics,
      decoder,
      isUnloadedByClient: () => served.record.isUnloadedByClient,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.closeNext();
    await this.opened?.build[Symbol.asyncDispose]();
    await this.#resources.disposeAsync();
  }
}

/** The fields that OpenAI's API uses. */
function openAiOf({ model, hooks }: OpenBuild): OpenAi {
  const { openai = {} } = model;
  const { embeddings } = openai;
  const tokens = embeddings?.tokens;
  if (embeddings === undefined || typeof tokens !== "function") return openai;
  const counted = (text: string) => {
    hooks.ran("tokens");
    return tokens(text, model.context);
  };
  return { ...openai, embeddings: { ...embeddings, tokens: counted } };
}
