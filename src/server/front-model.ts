/** A model in an HTTP process: resumes unfinished predictions at a start, and finishes predictions at a stop. */
import { messageOf } from "../base/errors.ts";
import { log } from "../base/log.ts";
import type { FrontModelOptions, ModelParts } from "./front-model-parts.ts";
import { maxInputsOf } from "./front-service.ts";
import type { FrontShared } from "./front-shared.ts";
import { Lifecycle } from "./http/routes/health.ts";
import type { RelativesNews } from "./messages.ts";
import type { ModelVersion } from "./predictions/model-version.ts";
import type { Predictions } from "./predictions/predictions.ts";
import type { PredictionService } from "./predictions/service.ts";
import { Shadow } from "./predictions/shadow.ts";
import type { RequestSource } from "./predictions/store.ts";

export class FrontModel {
  readonly shared: FrontShared;
  readonly lifecycle: Lifecycle;
  readonly options: FrontModelOptions;
  readonly parts: ModelParts;
  #relatives: RelativesNews = noRelatives;

  constructor(shared: FrontShared, options: FrontModelOptions, parts: ModelParts) {
    this.shared = shared;
    // With one model, the server and the model have one state.
    this.lifecycle = shared.options.models.length === 1 ? shared.lifecycle : new Lifecycle(shared.lifecycle);
    this.options = options;
    this.parts = parts;
  }

  /** Continues predictions of an earlier process, and begins to take predictions from the queue in Redis. */
  async start(): Promise<void> {
    const { parts, shared } = this;
    const { service, running, replica } = parts;
    const { relatives = noRelatives, onlyBuild } = shared.options;
    this.#follow(relatives);
    const isTaken = ({ model, isOwnServer }: RequestSource) =>
      onlyBuild === undefined
        ? isFree(relatives, model) && (isOwnServer || !hasServer(relatives))
        : model?.reference === onlyBuild;
    await this.#resume(isTaken);
    const load = () => this.options.engine?.need();
    if (service !== undefined && running !== undefined) replica?.work(service, running.engine, load);
    await replica?.ready();
  }

  /** The predictions for the routes; undefined with --role worker. */
  get predictions(): Predictions | undefined {
    const { replica, service, queued } = this.parts;
    return replica === undefined ? service : queued;
  }

  /**
   * Makes this model a shadow, which runs copies of the predictions of other builds. Undefined in a process that runs
   * no predictions.
   */
  openShadow(): Shadow | undefined {
    const { parts, options, shared } = this;
    const { running, flow, bodies, metrics, model } = parts;
    if (running === undefined || flow === undefined) return undefined;
    return new Shadow({
      name: options.name,
      engine: running.engine,
      pipeline: running.pipeline,
      flow,
      bodies,
      metrics,
      memory: shared.memory,
      isLoaded: () => options.engine?.state === "ready",
      maxInputs: maxInputsOf(model, options.config).prediction,
      timeoutMs: 1000 * options.config.timeout,
    });
  }

  /** Whether this process runs a prediction with this id, or its store has one; always true with --queue. */
  has(id: string): Promise<boolean> {
    const { replica, service } = this.parts;
    return service === undefined || replica !== undefined ? Promise.resolve(true) : service.has(id);
  }

  /**
   * Replaces the list of relatives: other servers with predictions of this model. Continues predictions of servers that
   * are not in the new list, unless the list has the other server of an upgrade.
   */
  async changeRelatives(next: RelativesNews): Promise<void> {
    const before = this.#relatives;
    this.#follow(next);
    const isLeft = (reference: string | undefined) =>
      before.relatives.some(({ build }) => build !== undefined && build === reference);
    if (hasServer(next)) return;
    await this.#resume(({ model, isOwnServer }) => isFree(next, model) && (!isOwnServer || isLeft(model?.reference)));
  }

  #follow(next: RelativesNews): void {
    this.#relatives = next;
    this.parts.refusals.unavailable = next.unavailable;
  }

  async #resume(isTaken: (source: RequestSource) => boolean): Promise<void> {
    const { parts, shared } = this;
    const { service, refusals } = parts;
    const isPartly = shared.options.onlyBuild !== undefined || hasServer(this.#relatives);
    const resumed = (await service?.resume({ isOwn: shared.options.isOwn ?? (() => true), isTaken, isPartly })) ?? 0;
    const { count } = refusals;
    refusals.count = 0;
    if (resumed > count) log.info(`Resuming ${resumed - count} accepted predictions`);
    if (count > 0)
      log.warn(`${count} predictions that another build accepted have failed; --take-over would run them on this one`);
  }

  /**
   * Finishes accepted predictions. Then waits a few seconds (`linger`) until clients have read results and receivers
   * have webhooks.
   * @returns latest end of this wait, in `performance.now()` milliseconds
   */
  async drain(): Promise<number> {
    const { running, replica, service, webhooks, store } = this.parts;
    const { drainTimeout, linger } = this.options.config;
    // Without a queue, only this server can answer for its predictions.
    const lingerMs = replica === undefined ? 1000 * linger : 0;
    running?.engine.hurry();
    if (replica !== undefined) await replica.drain(1000 * (drainTimeout ?? Infinity));
    else if (service !== undefined) await drainService(service, drainTimeout);
    // Writes the predictions to the store first: other servers read it when this process no longer answers.
    await store.flush().catch((error: unknown) => log.warn(messageOf(error)));
    const lingersUntilMs = performance.now() + lingerMs;
    if (replica !== undefined) await replica.releaseWebhooks(lingerMs);
    else await Promise.all([service?.live.unread.all(lingerMs), webhooks?.settled(lingerMs)]);
    return lingersUntilMs;
  }
}

const noRelatives: RelativesNews = { relatives: [], unavailable: {} };

/** Whether the other server of an upgrade runs, which finishes the predictions that it has accepted. */
function hasServer({ relatives }: RelativesNews): boolean {
  return relatives.some(({ build }) => build === undefined);
}

/** Whether this server may finish the predictions of a build, because no other running server does. */
function isFree({ relatives }: RelativesNews, model: ModelVersion | undefined): boolean {
  return !relatives.some(({ build }) => build !== undefined && build === model?.reference);
}

/** Waits until all predictions have ended, at most for the time limit in seconds; then abandons the others. */
async function drainService(service: PredictionService, drainTimeout: number | undefined): Promise<void> {
  await service.live.drain(1000 * (drainTimeout ?? Infinity));
  const { predictions } = service.live.unfinished;
  if (predictions > 0) log.warn(`${predictions} predictions have not ended within ${drainTimeout} s`);
  service.live.abandon();
}
