/** Creates, reads, cancels and resumes the predictions of this process. Independent of HTTP. */
import { codedError, SconceError } from "../base/errors.ts";
import { isLogged, log } from "../base/log.ts";
import { type DecodedBody, HELD_PER_BYTE } from "../pipeline/inputs/body.ts";
import { noInputs } from "../pipeline/inputs/input-list.ts";
import { newId } from "./ids.ts";
import type { LivePrediction } from "./live.ts";
import { LivePredictions, type LivePredictionsOptions, nounOf } from "./live-predictions.ts";
import { Creations } from "./once.ts";
import type { AskedPrediction, Client, NewPrediction, Predictions, Watched } from "./predictions.ts";
import { CANCELED, hasEnded, type Kind, type PredictionRecord } from "./record.ts";
import type { RunningBuild } from "./running-build.ts";
import type { RequestSource, UnfinishedRequest } from "./store.ts";
import { Waits } from "./waits.ts";
import { admitWebhook } from "./webhooks/webhooks.ts";

export interface ServiceOptions extends LivePredictionsOptions {
  /** First character of new ids, by which other processes find the process that has a prediction. */
  readonly owner: string;
  /** The error for new predictions while the model cannot run; undefined otherwise. */
  readonly unavailable?: (() => SconceError | undefined) | undefined;
  /** Whether the hook call that ended the last process is known; then no prediction fails for its deaths. */
  readonly isCauseKnown?: boolean | undefined;
}

export interface Resumption {
  /** Whether this process takes over predictions whose ids begin with this character. */
  readonly isOwn: (owner: string) => boolean;
  /** Whether to take over predictions of this source; by default all. */
  readonly isTaken?: (source: RequestSource) => boolean;
  /** Whether another server runs the other predictions of the store, and sends the webhooks of ended predictions. */
  readonly isPartly?: boolean;
}

/** Error message of a request whose body the store has lost. */
const LOST = "The server's store lost the request; send it again";
/** A prediction fails when this number of processes have died while it ran, because it may be the cause. */
const MAX_DEATHS = 2;

export class PredictionService implements Predictions {
  readonly live: LivePredictions;
  readonly #options: ServiceOptions;
  readonly #waits = new Waits();
  readonly #creations: Creations;

  constructor(options: ServiceOptions) {
    this.#options = options;
    this.live = new LivePredictions(options);
    this.#creations = new Creations(async (id) => this.live.get(id)?.record ?? options.store.get(id));
  }

  /** Gives new predictions to another build. Resolves when the predictions of the earlier build have ended. */
  async switchTo(build: RunningBuild): Promise<void> {
    const earlier = this.live.build;
    this.live.build = build;
    await earlier.idle();
  }

  admit(asked: AskedPrediction, items = 1): void {
    if (this.live.isDraining) {
      throw new SconceError("not_ready", "the server is stopping and takes no new predictions", { refusal: "drain" });
    }
    const unavailable = this.#options.unavailable?.();
    if (unavailable !== undefined) throw unavailable;
    const { bytes, timeoutMs = Infinity, waitMs, webhook, client } = asked;
    if (webhook !== undefined) admitWebhook(this.#options.webhooks, webhook);
    const timeLimitMs = Math.min(timeoutMs, this.#options.limits.timeoutMs);
    this.live.admission.check({ items, bytes, waitMs, timeLimitMs, client });
    client.reserve();
  }

  async create(request: NewPrediction): Promise<PredictionRecord> {
    const { once, kind, waitMs, client } = request;
    if (once !== undefined) {
      const record = await this.#creations.run(once, request.charge, async () => {
        this.#options.webhooks?.giveUp(once.id);
        // The client knows the id, and may read the prediction from another process: the store must have the request at
        // once.
        const live = await this.#accept({ ...request, waitMs: 0 });
        await this.live.store(live);
        return live.record;
      });
      return (await this.wait(kind, once.id, { waitMs, client })) ?? record;
    }
    const accepted = this.#accept(request);
    const live = accepted instanceof Promise ? await accepted : accepted;
    // The receiver of the webhook must get the outcome even if this process is killed.
    if (request.webhook !== undefined) await this.live.store(live);
    if (waitMs > 0) {
      await this.#waits.until(live, client, waitMs);
      // The client disconnected before it got the id, so nobody can read the outcome, except the receiver of a webhook.
      if (request.webhook === undefined && !live.isOver && client.signal.aborted) live.end(CANCELED, "canceled");
    }
    if (live.mustStore) await this.live.store(live);
    if (live.isStored) await this.#written(live);
    return live.record;
  }

  async get(kind: Kind, id: string): Promise<PredictionRecord | undefined> {
    const record = this.live.get(id)?.record ?? (await this.#options.store.get(id));
    if (record?.kind !== kind) return undefined;
    if (hasEnded(record)) this.live.unread.read(id);
    return record;
  }

  /** Whether this process runs the prediction, or the store has its outcome. First waits for requests with this id. */
  async has(id: string): Promise<boolean> {
    await this.#creations.settled(id);
    if (this.live.get(id) !== undefined) return true;
    const record = await this.#options.store.get(id);
    return record !== undefined && hasEnded(record);
  }

  async cancel(kind: Kind, id: string): Promise<PredictionRecord | undefined> {
    const live = this.#liveOf(kind, id);
    live?.end(CANCELED, "canceled");
    this.live.unread.read(id);
    if (live !== undefined) await this.#written(live);
    const record = live?.record ?? (await this.get(kind, id));
    if (record === undefined || hasEnded(record)) return record;
    throw new SconceError("not_ready", "the process that has this prediction is starting again; try again then", {
      refusal: "engine",
    });
  }

  async wait(
    kind: Kind,
    id: string,
    { waitMs, client }: { readonly waitMs: number; readonly client: Client },
  ): Promise<PredictionRecord | undefined> {
    const live = this.#liveOf(kind, id);
    if (live === undefined) return this.get(kind, id);
    await this.#waits.until(live, client, waitMs);
    if (live.isOver) this.live.unread.read(id);
    await this.#written(live);
    return live.record;
  }

  async watch(kind: Kind, id: string, changed: () => void): Promise<Watched | undefined> {
    const live = this.#liveOf(kind, id);
    const record = live?.record ?? (await this.get(kind, id));
    if (record === undefined) return undefined;
    return live === undefined ? { record, outputs: [], [Symbol.dispose]() {} } : this.#watched(live, changed);
  }

  #watched(live: LivePrediction, changed: () => void): Watched {
    const stop = live.watch(changed);
    const parts = live.parts?.hold();
    return {
      record: live.record,
      get outputs() {
        return live.outputs;
      },
      parts,
      written: () => this.#written(live),
      [Symbol.dispose]: () => {
        stop();
        parts?.[Symbol.dispose]();
        if (live.isOver) this.live.unread.read(live.id);
      },
    };
  }

  /**
   * Runs the unfinished predictions of processes that have ended, even if the queue is full. On a full disk it resolves
   * early, and the remaining predictions start when the disk has room.
   * @returns the number of predictions started so far
   */
  resume({ isOwn, isTaken = () => true, isPartly = false }: Resumption): Promise<number> {
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    let [resumed, isFull] = [0, false];
    const onFull = () => {
      if (!isFull)
        log.warn(
          "The disk of the predictions is full: the server reads them, accepts none, and resumes the rest when there is room",
        );
      isFull = true;
      resolve(resumed);
    };
    const run = async () => {
      const isOurs = (source: RequestSource) => isOwn(source.owner) && isTaken(source);
      for await (const request of this.#options.store.takeOver(isOurs, onFull)) {
        await this.begin(request);
        resumed += 1;
      }
      if (isFull) log.info("The disk of the predictions has room again");
      await this.#options.webhooks?.resume(isOwn, (id) => this.live.get(id), { isPartly });
      resolve(resumed);
    };
    run().catch((error) => (isFull ? log.error(error) : reject(error)));
    return promise;
  }

  /** Queues, or ends with an error, a request that another process or replica accepted. Never throws. */
  async begin({ leftMs, deaths, isLost = false, ...request }: UnfinishedRequest): Promise<void> {
    const { id, kind, body, count } = request;
    const bytes = typeof body === "string" ? Buffer.byteLength(body) : body.length;
    const { build } = this.live;
    const accepted = { ...request, model: isLost ? request.model : build.parts.version };
    const charge = this.#options.memory.add("bodies", HELD_PER_BYTE * bytes);
    if (isLost) {
      this.live.begin(accepted, { build, inputs: noInputs, bytes, charge, leftMs, mustFail: true }).end(LOST, "stop");
      return;
    }
    build.begun();
    try {
      const { inputs } = await build.parts.bodies.decode(typeof body === "string" ? body : [body], count, (added) =>
        charge.grow(added),
      );
      const mustFail = deaths >= MAX_DEATHS && !this.#options.isCauseKnown;
      const live = this.live.begin(accepted, { build, inputs, bytes, charge, leftMs, mustFail });
      if (mustFail) live.end(`The server ended ${deaths} times while this ran; it is not run again`, "engine");
    } catch (error) {
      // The inputs do not match the schema, because the server was restarted with another model.
      const live = this.live.begin(accepted, { build, inputs: noInputs, bytes, charge, leftMs, mustFail: true });
      const coded = codedError(error);
      live.end(`After a restart the inputs are no longer taken: ${coded.clientMessage}`, "input");
      this.#options.onFault?.(`${nounOf(kind)} ${id}`, coded, live);
    } finally {
      build.ended();
    }
  }

  /** Waits until the outcome is stored. Clients must not see it earlier. */
  async #written(live: LivePrediction | undefined): Promise<void> {
    if (live?.isOver && live.isStored) await this.#options.store.written(live.id);
  }

  /** Returns a promise only for a large body, because a promise would delay small predictions. */
  #accept(request: NewPrediction): LivePrediction | Promise<LivePrediction> {
    const { body, kind, charge } = request;
    try {
      // Checked again, because the queue may have become full while a large body arrived.
      if (typeof body !== "string") this.admit(request);
      const beganMs = performance.now();
      const { build } = this.live;
      const decoding = build.parts.bodies.decode(body, build.parts.maxInputs[kind], (added) => charge.mustGrow(added));
      if (!(decoding instanceof Promise)) return this.#begin(request, { ...decoding, build, beganMs });
      // The build that decodes the inputs also runs them, even if another build replaces it meanwhile.
      build.begun();
      return decoding
        .then((decoded) => this.#begin(request, { ...decoded, build, beganMs }))
        .finally(() => build.ended())
        .catch((error: unknown) => {
          charge[Symbol.dispose]();
          throw error;
        });
    } catch (error) {
      charge[Symbol.dispose]();
      throw error;
    }
  }

  /**
   * Begins a prediction with its decoded inputs.
   * @param decoded.beganMs start of the decoding, in milliseconds of `performance.now()`
   */
  #begin(
    request: NewPrediction,
    { inputs, body, build, beganMs }: DecodedBody & { readonly build: RunningBuild; readonly beganMs: number },
  ): LivePrediction {
    const { kind, bytes, charge, timeoutMs = Infinity, client, origin, once, webhook, watcher } = request;
    const { limits, metrics, owner, onTrace } = this.#options;
    const { flow, version } = build.parts;
    metrics.took("decode", performance.now() - beganMs);
    const count = inputs.length;
    this.admit(request, count);
    const live = this.live.begin(
      {
        id: once?.id ?? newId(owner) + client.idSuffix,
        kind,
        count,
        createdAtMs: Date.now(),
        timeoutMs: Math.min(timeoutMs, limits.timeoutMs),
        body,
        origin,
        digest: once?.digest,
        model: version,
        webhook,
      },
      {
        build,
        inputs,
        bytes,
        charge,
        // An idle server omits `sender`, and the prediction gets share 1. A client with a larger share keeps its sender,
        // because its long prediction may still run when others wait.
        sender: flow.needsSender || client.share > 1 ? client.sender : undefined,
      },
    );
    client.release();
    live.span?.took("decode", beganMs);
    if (watcher !== undefined) watcher.begun(this.#watched(live, watcher.changed));
    if (isLogged("trace")) onTrace?.(`${nounOf(kind)} ${live.id} was accepted with ${live.count} inputs`, live);
    return live;
  }

  #liveOf(kind: Kind, id: string): LivePrediction | undefined {
    const live = this.live.get(id);
    return live?.kind === kind ? live : undefined;
  }
}
