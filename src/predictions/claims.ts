/** Claims requests from the store and runs them: requests of dead processes, or requests of a queue that servers share. */
import { codedError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import { until } from "../base/until.ts";
import type { RemoteEngine } from "../engine/remote/remote-engine.ts";
import { HELD_PER_BYTE } from "../pipeline/inputs/body.ts";
import type { InputList } from "../pipeline/inputs/input-list.ts";
import type { ListItem } from "../pipeline/item-list.ts";
import type { MemoryAccount } from "../pipeline/memory/memory-account.ts";
import { type LivePredictions, type LivePredictionsOptions, nounOf } from "./live-predictions.ts";
import type { PredictionMetrics } from "./metrics.ts";
import { type PredictionRequest, storedBody } from "./request.ts";
import type { BuildParts } from "./running-build.ts";
import type { Claimed, RequestSource, Store } from "./store.ts";

export interface ClaimsOptions {
  readonly store: Store;
  readonly live: LivePredictions;
  readonly memory: MemoryAccount;
  /** Number of fronts of this server. Each front claims an equal share of the predictions that the engine can run. */
  readonly fronts?: number | undefined;
  /** Loads the model if it is not loaded. */
  readonly load?: (() => void) | undefined;
  /** Whether the hook call that ended the last process of this server is known; then no prediction fails for its deaths. */
  readonly isCauseKnown?: boolean | undefined;
  readonly metrics: PredictionMetrics;
  /** Writes the error of a request that can no longer run into the server's log. */
  readonly onFault?: LivePredictionsOptions["onFault"];
}

/** A prediction fails after this many ends of processes that ran it. */
const MAX_DEATHS = 2;
/** Error message of a request whose body the store has lost. */
const LOST = "The server's store lost the request; send it again";
/** Milliseconds between checks while the engine is not ready, or memory is full. */
const RETRY_MS = 100;
/** Milliseconds before a request whose body cannot be loaded goes back to the queue. */
const GIVE_BACK_MS = 1000;
/**
 * A prediction that began this many milliseconds ago counts only a tenth against the capacity, so that short predictions run
 * beside it.
 */
const LONG_MS = 500;
const LONG_SHARE = 0.1;
/** Weight of the newest request in `#meanShare`. */
const MEAN_WEIGHT = 0.2;

/**
 * The share of one front, in inputs, of a batch of the engine, and of what the server claims at most. Claimed inputs for
 * three batches keep the device busy.
 */
export function capacityOf(
  { maxBatchSize, instances }: Pick<RemoteEngine<ListItem>, "maxBatchSize" | "instances">,
  fronts: number,
): { readonly batch: number; readonly most: number } {
  const batch = maxBatchSize * instances;
  return { batch: batch / fronts, most: Math.max(8, 3 * batch) / fronts };
}

export class Claims {
  readonly #options: ClaimsOptions;
  readonly #stopping = new AbortController();
  /** Claimed requests whose bodies are being loaded, by id. */
  readonly #loading = new Map<string, Claimed>();
  #claiming: Promise<unknown> = Promise.resolve();
  /** Moving average of the inputs that a request counts. */
  #meanShare = 1;
  /** Called when a prediction has ended, or this process stops. */
  #wake: () => void = () => {};

  constructor(options: ClaimsOptions) {
    this.#options = options;
  }

  /** Claims requests and runs them, until no request is left or `stop` is called. @returns the number of requests */
  run(isTaken: (source: RequestSource) => boolean): Promise<number> {
    // With --role front, other servers run the requests of a shared queue.
    if (this.#options.store.shared !== undefined && this.#engine === undefined) return Promise.resolve(0);
    const running = this.#run(isTaken);
    this.#claiming = Promise.allSettled([this.#claiming, running]);
    return running;
  }

  /** Called when a prediction has ended: there may be room for another one. */
  ended(): void {
    this.#wake();
  }

  /**
   * Stops claiming. In a shared queue, other processes get the requests that have not started at once, and all others after
   * `maxMs` milliseconds. Otherwise the next process gets the requests that have not ended by then.
   */
  async stop(maxMs: number): Promise<void> {
    const { store, live } = this.#options;
    this.#stopping.abort();
    this.#wake();
    await this.#claiming;
    if (store.shared !== undefined) {
      const waiting = [...live].filter(({ isProcessing }) => !isProcessing).map(({ id }) => id);
      await this.#release([...this.#loading.keys(), ...waiting]);
    }
    await until(() => live.size === 0, maxMs);
    if (live.size === 0) return;
    const seconds = Math.round(maxMs / 100) / 10;
    const then = store.shared === undefined ? "" : ": they go back to the queue";
    log.warn(`${live.size} predictions have not ended within ${seconds} s${then}`);
    if (store.shared === undefined) await store.release(live.abandon());
    else await this.#release([...live].map(({ id }) => id));
  }

  async #run(isTaken: (source: RequestSource) => boolean): Promise<number> {
    const { store, load } = this.#options;
    const isActive = () => this.#isActive;
    const claimed = store.claim({
      signal: this.#stopping.signal,
      get isActive() {
        return isActive();
      },
      isTaken,
      room: () => this.#room(),
      lost: (id) => this.#lost(id),
      wanted: () => {
        if (!this.#stopping.signal.aborted) load?.();
      },
    });
    let count = 0;
    for await (const each of claimed) {
      const started = this.#begin(each);
      // The bodies of a large database must not all be in memory. A shared queue gives as many as there is room for.
      if (store.shared === undefined) await started;
      count += 1;
    }
    return count;
  }

  async #begin(claimed: Claimed): Promise<void> {
    const { store, live, memory } = this.#options;
    const { id } = claimed;
    this.#loading.set(id, claimed);
    this.#meanShare += MEAN_WEIGHT * (this.#shareOf(claimed) - this.#meanShare);
    try {
      const body = memory.add("bodies", claimed.bytes);
      const request = await claimed.load().finally(() => body[Symbol.dispose]());
      if (this.#loading.get(id) !== claimed) return;
      await this.#queue(claimed, request);
    } catch (error) {
      if (store.shared === undefined) throw error;
      // Another process may be able to load the body.
      await Bun.sleep(GIVE_BACK_MS);
      if (this.#loading.get(id) === claimed) await this.#release([id]);
      return;
    }
    if (this.#loading.get(id) !== claimed) return live.withdraw(id);
    this.#loading.delete(id);
    const started = live.get(id);
    if (started !== undefined) store.shared?.report(started);
  }

  /** Queues a claimed request, or ends it with an error. Never throws. @param request undefined if the store has lost the body */
  async #queue(claimed: Claimed, request: PredictionRequest | undefined): Promise<void> {
    const { store, live, memory, metrics, isCauseKnown, onFault } = this.#options;
    const { id, kind, count, bytes, deadlineMs, deaths } = claimed;
    const isShared = store.shared !== undefined;
    const { build } = live;
    const charge = memory.add("bodies", HELD_PER_BYTE * bytes);
    const accepted = { ...(request ?? { ...claimed, body: "" }), model: request && build.parts.version };
    const begin = (inputs?: InputList) => live.begin(accepted, { build, inputs, bytes, charge, deadlineMs });
    if (request === undefined) return begin().end(LOST, "stop");
    if (deaths >= MAX_DEATHS && (isShared || !isCauseKnown)) {
      if (isShared) metrics.queueTook({ taken: 0, reclaimed: 0, givenUp: 1 });
      const message = `Given up: ${deaths} processes ended, or were cut off, while they ran this; it is not run again`;
      return begin().end(message, "engine");
    }
    build.enter();
    try {
      const body = storedBody(request);
      const pieces = typeof body === "string" ? body : [body];
      begin((await build.parts.bodies.decode(pieces, count, { mustGrow: (added) => charge.grow(added) })).inputs);
    } catch (error) {
      // The inputs do not match the schema, because the server was restarted with another model.
      const coded = codedError(error);
      const failed = begin();
      failed.end(`After a restart the inputs are no longer taken: ${coded.clientMessage}`, "input");
      onFault?.(`${nounOf(kind)} ${id}`, coded, failed);
    } finally {
      build.ended();
    }
  }

  /** Resolves with the number of requests to claim, once at least this front's share of a batch is free; with 0 at the stop. */
  async #room(): Promise<number> {
    const { memory, fronts = 1 } = this.#options;
    while (!this.#stopping.signal.aborted) {
      const engine = this.#engine;
      const isReady = engine?.isReady === true && memory.hasRoom("bodies", 0);
      if (engine !== undefined && isReady) {
        const { batch, most } = capacityOf(engine, fronts);
        const free = most - this.#used();
        if (free >= batch) return Math.max(1, Math.round(free / this.#meanShare));
      }
      await this.#change(isReady ? LONG_MS / 2 : RETRY_MS);
    }
    return 0;
  }

  get #engine(): BuildParts["engine"] {
    return this.#options.live.build.parts.engine;
  }

  /** Inputs that this process counts for the requests that it has claimed. */
  #used(): number {
    const longMs = performance.now() - LONG_MS;
    let used = 0;
    for (const live of this.#options.live) used += (live.createdAtMs < longMs ? LONG_SHARE : 1) * this.#shareOf(live);
    for (const [id, claimed] of this.#loading)
      if (this.#options.live.get(id) === undefined) used += this.#shareOf(claimed);
    return used;
  }

  /** A prediction with many inputs counts at most a quarter of a batch, so that other predictions run beside it. */
  #shareOf({ count }: { readonly count: number }): number {
    const engine = this.#engine;
    const most = engine === undefined ? 1 : Math.max(1, (engine.maxBatchSize * engine.instances) >> 2);
    return Math.min(count, most);
  }

  /** Resolves when a prediction ends, at the stop, or after some milliseconds. */
  async #change(ms: number): Promise<void> {
    const changed = Promise.withResolvers<void>();
    this.#wake = changed.resolve;
    const timer = setTimeout(changed.resolve, ms);
    await changed.promise;
    clearTimeout(timer);
  }

  /** Whether this process can run a request of a shared queue, or still runs one. */
  get #isActive(): boolean {
    return this.#engine?.isReady === true || this.#options.live.size > 0;
  }

  /** Drops a request that another process has claimed or will claim. */
  #lost(id: string): void {
    this.#loading.delete(id);
    this.#options.live.withdraw(id);
  }

  async #release(ids: readonly string[]): Promise<void> {
    for (const id of ids) this.#lost(id);
    // If this fails, other processes claim the requests when their leases end.
    await this.#options.store.release(ids).catch(() => {});
  }
}
