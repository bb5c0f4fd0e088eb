/**
 * A model in an HTTP process: its current build, and the parts that outlive a build. Resumes unfinished predictions at a
 * start, and finishes predictions at a stop.
 */
import { log } from "../base/log.ts";
import { frontOf } from "../predictions/ids.ts";
import type { Predictions } from "../predictions/predictions.ts";
import type { RequestSource } from "../predictions/store.ts";
import { type Build, type ModelParts, openBuild, openModelParts } from "./front-model-parts.ts";
import type { FrontShared } from "./front-shared.ts";
import type { ServedBuild } from "./served-build.ts";

/** An open build, and the parts that close with it. */
interface OpenBuild {
  readonly build: Build;
  readonly resources: AsyncDisposableStack;
}

export class FrontModel implements AsyncDisposable {
  readonly shared: FrontShared;
  readonly parts: ModelParts;
  #current: OpenBuild;
  /** A build that a reload has opened, and that answers no requests yet. */
  #next: OpenBuild | undefined;
  /** Resolves when the build before the current one has ended its predictions, and is closed. */
  earlierEnded: Promise<void> = Promise.resolve();
  readonly #resources: AsyncDisposableStack;

  private constructor(shared: FrontShared, current: OpenBuild, parts: ModelParts, resources: AsyncDisposableStack) {
    this.shared = shared;
    this.#current = current;
    this.parts = parts;
    this.#resources = resources;
    this.#follow();
  }

  /** @throws SconceError `predictions_unusable`, or an error of the model's set-up */
  static async open(shared: FrontShared, served: ServedBuild): Promise<FrontModel> {
    await using resources = new AsyncDisposableStack();
    const current = await open(shared, served);
    resources.defer(() => current.resources.disposeAsync());
    let front: FrontModel | undefined;
    await using own = new AsyncDisposableStack();
    const parts = await openModelParts(shared, current.build, () => front?.served ?? served, own);
    // The build closes before the store, since it may still end predictions.
    resources.move();
    front = new FrontModel(shared, current, parts, own.move());
    return front;
  }

  /** The build that answers requests. */
  get build(): Build {
    return this.#current.build;
  }

  get served(): ServedBuild {
    return this.build.served;
  }

  /**
   * Continues predictions of an earlier process, and begins to take predictions from the queue in Redis.
   * @param hasClaim whether no other server runs the predictions of the store; false with --take-over
   */
  async start(hasClaim: boolean): Promise<void> {
    await this.#resume(({ isOwnServer }) => hasClaim || isOwnServer, !hasClaim);
    await this.parts.store.shared?.ready();
  }

  /** Runs the unfinished predictions of the server that had the port before, and has ended. */
  claim(): Promise<void> {
    return this.#resume(({ isOwnServer }) => !isOwnServer, false);
  }

  /** The predictions for the routes; undefined with --role worker. */
  get predictions(): Predictions | undefined {
    return this.served.config.role === "worker" ? undefined : this.parts.predictions;
  }

  /** Opens a build beside the current one. @throws SconceError an error of its set-up */
  async openNext(served: ServedBuild): Promise<void> {
    await this.closeNext();
    this.#next = await open(this.shared, served);
  }

  async closeNext(): Promise<void> {
    const next = this.#next;
    this.#next = undefined;
    await next?.resources.disposeAsync();
  }

  /** Gives new predictions to the opened build. The earlier build ends its predictions, and is closed. */
  switchToNext(): void {
    const [earlier, next] = [this.#current, this.#next];
    // A process that has started since then has opened the new build alone.
    if (next === undefined) return;
    this.#next = undefined;
    this.#current = next;
    this.#follow();
    this.earlierEnded = this.parts.predictions.switchTo(next.build.runs).then(() => earlier.resources.disposeAsync());
    this.earlierEnded.catch((error: unknown) => log.error(error));
  }

  /** Connects the engine's state with the predictions. */
  #follow(): void {
    const { served, parts } = this;
    const { live } = parts.predictions;
    served.predictionsIdleMs = () => live.idleMs;
    served.onFailed = (reason) => live.failAll(`the model could not be loaded: ${reason}`);
  }

  async #resume(isTaken: (source: RequestSource) => boolean, isPartly: boolean): Promise<void> {
    const { index, count } = this.shared.start;
    const isOwn = (owner: string) => frontOf(owner, count) === index;
    const resumed = await this.parts.predictions.resume({ isOwn, isTaken, isPartly });
    if (resumed > 0) log.info(`Resuming ${resumed} accepted predictions`);
  }

  /**
   * Finishes accepted predictions. Then waits a few seconds (`linger`) until clients have read results and receivers
   * have webhooks.
   * @returns latest end of this wait, in `performance.now()` milliseconds
   */
  async drain(): Promise<number> {
    const { predictions, webhooks, store } = this.parts;
    const { drainTimeout, linger } = this.served.config;
    // Without a queue, only this server can answer for its predictions.
    const lingerMs = store.shared === undefined ? 1000 * linger : 0;
    await predictions.drain(1000 * (drainTimeout ?? Infinity));
    const lingersUntilMs = performance.now() + lingerMs;
    await Promise.all([predictions.live.unread.all(lingerMs), webhooks?.settled(lingerMs)]);
    await webhooks?.release();
    return lingersUntilMs;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.closeNext();
    await this.#current.resources.disposeAsync();
    await this.#resources.disposeAsync();
  }
}

async function open(shared: FrontShared, served: ServedBuild): Promise<OpenBuild> {
  await using resources = new AsyncDisposableStack();
  const build = await openBuild(shared, served, resources);
  return { build, resources: resources.move() };
}
