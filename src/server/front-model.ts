/** A model in a front: starts, drains, and takes over the predictions of relatives. */
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
    // A server with a single model has the same state as the model.
    this.lifecycle = shared.options.models.length === 1 ? shared.lifecycle : new Lifecycle(shared.lifecycle);
    this.options = options;
    this.parts = parts;
  }

  /** Resumes predictions of an earlier process, and claims predictions of the queue. */
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
    if (service !== undefined && running !== undefined) replica?.work(service, running.engine);
    await replica?.ready();
  }

  /** The predictions for the routes; undefined for a worker. */
  get predictions(): Predictions | undefined {
    const { replica, service, queued } = this.parts;
    return replica === undefined ? service : queued;
  }

  /** Makes this model run copies of the predictions of other builds. Undefined where this front runs no predictions. */
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

  /** Whether this front runs a prediction, or its store has the outcome. */
  has(id: string): Promise<boolean> {
    // The replicas of a queue know all predictions.
    const { replica, service } = this.parts;
    return service === undefined || replica !== undefined ? Promise.resolve(true) : service.has(id);
  }

  /** Takes over the predictions of relatives that are no longer there. */
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
   * Finishes accepted predictions. Then clients have the linger time to read their results, and receivers to take their webhooks.
   * @returns the end of the linger time
   */
  async drain(): Promise<number> {
    const { running, replica, service, webhooks, store } = this.parts;
    const { drainTimeout, linger } = this.options.config;
    const lingerMs = 1000 * linger;
    running?.engine.hurry();
    if (replica !== undefined) await replica.drain(1000 * (drainTimeout ?? Infinity));
    else if (service !== undefined) await drainService(service, drainTimeout);
    // Relatives look in the store as soon as this process does not answer.
    await store.flush().catch((error: unknown) => log.warn(messageOf(error)));
    const lingersUntilMs = performance.now() + lingerMs;
    if (replica !== undefined) await replica.releaseWebhooks(lingerMs);
    else await Promise.all([service?.live.unread.all(lingerMs), webhooks?.settled(lingerMs)]);
    return lingersUntilMs;
  }
}

const noRelatives: RelativesNews = { relatives: [], unavailable: {} };

/** Whether the other server of an upgrade is there. It runs all predictions that it has accepted. */
function hasServer({ relatives }: RelativesNews): boolean {
  return relatives.some(({ build }) => build === undefined);
}

/** Whether no relative finishes the predictions of this build. */
function isFree({ relatives }: RelativesNews, model: ModelVersion | undefined): boolean {
  return !relatives.some(({ build }) => build !== undefined && build === model?.reference);
}

/** Ends all predictions, within the time limit. */
async function drainService(service: PredictionService, drainTimeout: number | undefined): Promise<void> {
  await Promise.race([service.live.drain(), ...(drainTimeout === undefined ? [] : [Bun.sleep(1000 * drainTimeout)])]);
  const { predictions } = service.live.unfinished;
  if (predictions > 0) log.warn(`${predictions} predictions have not ended within ${drainTimeout} s`);
  service.live.abandon();
}
