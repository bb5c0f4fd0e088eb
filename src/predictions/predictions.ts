/** Creates, reads, cancels and watches predictions. Runs those that this process has accepted or claimed. Independent of HTTP. */
import { messageOf, SconceError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import type { DecodedBody } from "../pipeline/inputs/body.ts";
import { checkWait } from "./admission.ts";
import { Claims, type ClaimsOptions } from "./claims.ts";
import { newId } from "./ids.ts";
import type { LivePrediction } from "./live.ts";
import { LivePredictions, type LivePredictionsOptions } from "./live-predictions.ts";
import { Creations } from "./once.ts";
import { CANCELED, hasEnded, type Kind, type PredictionRecord } from "./record.ts";
import type { AskedPrediction, Client, NewPrediction, Once } from "./request.ts";
import type { RunningBuild } from "./running-build.ts";
import { SharedPredictions } from "./shared-predictions.ts";
import type { RequestSource } from "./store.ts";
import { Waits } from "./waits.ts";
import type { Watched } from "./watched.ts";
import { admitWebhook } from "./webhooks/webhooks.ts";

export interface PredictionsOptions
  extends LivePredictionsOptions,
    Pick<ClaimsOptions, "fronts" | "load" | "isCauseKnown"> {
  /** First character of new ids, by which other processes find the process that has a prediction. */
  readonly owner: string;
  /** The error for new predictions while the model cannot run; undefined otherwise. */
  readonly unavailable?: (() => SconceError | undefined) | undefined;
}

/** Milliseconds that a stopping process waits until a shared store has the outcomes. */
const FLUSH_MS = 5000;

export class Predictions {
  readonly live: LivePredictions;
  readonly #options: PredictionsOptions;
  readonly #shared: SharedPredictions | undefined;
  readonly #claims: Claims;
  readonly #waits = new Waits();
  readonly #creations: Creations;
  #isDraining = false;

  constructor(options: PredictionsOptions) {
    const { store } = options;
    this.#options = options;
    this.live = new LivePredictions({ ...options, onEnd: () => this.#claims.ended() });
    this.#claims = new Claims({ ...options, live: this.live });
    this.#creations = new Creations((id) => this.#read(id));
    const { live } = this;
    const [waits, creations] = [this.#waits, this.#creations];
    const admit = (asked: AskedPrediction) => this.admit(asked);
    const { shared } = store;
    this.#shared = shared && new SharedPredictions({ ...options, shared, live, waits, creations, admit });
  }

  /** Gives new predictions to another build. Resolves when the predictions of the earlier build have ended. */
  async switchTo(build: RunningBuild): Promise<void> {
    const earlier = this.live.build;
    this.live.build = build;
    await earlier.idle();
  }

  /**
   * Refuses a request before its body is read, which keeps refusals cheap under overload.
   * @throws SconceError `queue_full`, `not_ready` or `webhook_refused`
   */
  admit(asked: AskedPrediction, items = 1): void {
    if (this.#isDraining) {
      throw new SconceError("not_ready", "the server is stopping and takes no new predictions", { refusal: "drain" });
    }
    const { shared } = this.#options.store;
    const unavailable = shared === undefined ? this.#options.unavailable?.() : undefined;
    if (unavailable !== undefined) throw unavailable;
    const { timeoutMs = Infinity, waitMs, webhook } = asked;
    if (webhook !== undefined) admitWebhook(this.#options.webhooks, webhook);
    const timeLimitMs = Math.min(timeoutMs, this.#options.limits.timeoutMs);
    if (shared === undefined) this.live.admission.check(asked, items, timeLimitMs);
    else checkWait(shared.waitMs, timeLimitMs, waitMs);
  }

  /**
   * Creates a prediction with all inputs of the request, or throws. An unfinished prediction is in the store before its
   * client gets the id.
   * @throws SconceError errors of `admit`; `body_invalid`, `inputs_invalid`; `predictions_unwritable` or
   * `queue_unavailable` if the store fails; `prediction_differs` if the client chose the id of a prediction with another
   * body
   */
  create(request: NewPrediction): PredictionRecord | Promise<PredictionRecord> {
    const { once, webhook } = request;
    if (once !== undefined) return this.#createChosen(request, once);
    if (this.#shared !== undefined) return this.#shared.create(request);
    const accepted = this.#accept(request);
    // The receiver of the webhook must get the outcome even if this process is killed.
    if (accepted instanceof Promise || webhook !== undefined) return this.#createLater(accepted, request);
    // A client that waits for a small prediction costs no other promise.
    // Without a wait, nothing reads the client's signal, which Bun creates at its first use.
    return request.waitMs > 0 ? this.#afterWait(accepted, request) : this.#kept(accepted);
  }

  #afterWait(live: LivePrediction, { waitMs, client }: NewPrediction): PredictionRecord | Promise<PredictionRecord> {
    if (waitMs <= 0) return this.#waited(live, client);
    return this.#waits.resultOf(live, client, live.createdAtMs + waitMs, this.#waited);
  }

  async #createLater(
    accepted: LivePrediction | Promise<LivePrediction>,
    request: NewPrediction,
  ): Promise<PredictionRecord> {
    const { webhook, waitMs, client } = request;
    const live = await accepted;
    if (webhook === undefined) return this.#afterWait(live, request);
    await this.live.store(live);
    await this.#waits.until(live, client, waitMs);
    return this.#kept(live);
  }

  /** The prediction after the wait of its client. */
  readonly #waited = (live: LivePrediction, client: Client): PredictionRecord | Promise<PredictionRecord> => {
    // The client disconnected before it got the id, so nobody can read the outcome.
    if (!live.isOver && client.signal.aborted) live.end(CANCELED, "canceled");
    return live.isOver && live.storage !== "store" ? live.record : this.#kept(live);
  };

  /** Resolves when the store has the unfinished prediction, or its outcome if it has the request. */
  async #kept(live: LivePrediction): Promise<PredictionRecord> {
    if (!live.isOver) await this.live.store(live);
    if (live.storage === "store") await this.#written(live);
    return live.record;
  }

  /**
   * Reads a prediction.
   * @returns undefined if the id is unknown, too old, or of the other kind of prediction
   */
  async get(kind: Kind, id: string): Promise<PredictionRecord | undefined> {
    const record = await this.#read(id);
    if (record?.kind !== kind) return undefined;
    if (hasEnded(record)) this.live.unread.delete(id);
    return record;
  }

  /**
   * Ends a prediction as canceled, unless it has ended.
   * @returns the prediction; undefined in the cases of `get`
   * @throws SconceError `not_ready` while the process of the prediction restarts
   */
  async cancel(kind: Kind, id: string): Promise<PredictionRecord | undefined> {
    const { shared } = this.#options.store;
    if (shared !== undefined) return shared.cancel(kind, id);
    const live = this.#liveOf(kind, id);
    live?.end(CANCELED, "canceled");
    this.live.unread.delete(id);
    if (live !== undefined) await this.#written(live);
    const record = live?.record ?? (await this.get(kind, id));
    if (record === undefined || hasEnded(record)) return record;
    throw new SconceError("not_ready", "the process that has this prediction is starting again; try again then", {
      refusal: "engine",
    });
  }

  /** Like `get`, but first waits for the end, `waitMs` milliseconds, or until the client disconnects. */
  async wait(
    kind: Kind,
    id: string,
    { waitMs, client }: { readonly waitMs: number; readonly client: Client },
  ): Promise<PredictionRecord | undefined> {
    if (this.#shared !== undefined && waitMs > 0) return this.#shared.wait(kind, id, { waitMs, client });
    const live = this.#liveOf(kind, id);
    if (live === undefined) return this.get(kind, id);
    await this.#waits.until(live, client, waitMs);
    if (live.isOver) this.live.unread.delete(id);
    await this.#written(live);
    return live.record;
  }

  /**
   * Subscribes to a prediction.
   * @param changed called after the start, a piece of an output, an output, a log line, and the end; one call may
   * report several changes
   * @returns undefined in the cases of `get`
   */
  async watch(kind: Kind, id: string, changed: () => void): Promise<Watched | undefined> {
    if (this.#shared !== undefined) return this.#shared.watch(kind, id, changed);
    const live = this.#liveOf(kind, id);
    const record = live?.record ?? (await this.get(kind, id));
    if (record === undefined) return undefined;
    return live === undefined ? { record, [Symbol.dispose]() {} } : this.#watched(live, changed);
  }

  #watched(live: LivePrediction, changed: () => void): Watched {
    const observer = { changed };
    live.watch(observer);
    const events = live.isOver ? undefined : live.events.hold();
    return {
      record: live.record,
      events,
      written: () => this.#written(live),
      [Symbol.dispose]: () => {
        live.unwatch(observer);
        events?.[Symbol.dispose]();
        if (live.isOver) this.live.unread.delete(live.id);
      },
    };
  }

  /**
   * Runs the unfinished predictions of processes that have ended, even if the queue is full. A shared store has no such
   * predictions: this process claims its predictions from now on.
   * @returns the number of predictions started so far
   */
  async resume(isTaken: (source: RequestSource) => boolean): Promise<number> {
    const claims = this.#claims.run(isTaken);
    if (this.#shared === undefined) return claims;
    claims.catch((error: unknown) => log.error(error));
    return 0;
  }

  /**
   * Refuses new predictions. Resolves when all accepted predictions have ended, or after about `maxMs` milliseconds.
   * Another process then runs the others.
   */
  async drain(maxMs = Infinity): Promise<void> {
    const beganMs = performance.now();
    this.#isDraining = true;
    await this.#claims.stop(maxMs);
    const flushed = this.#options.store.flush().catch((error: unknown) => log.warn(messageOf(error)));
    await (this.#shared === undefined ? flushed : Promise.race([flushed, Bun.sleep(FLUSH_MS)]));
    await this.#options.store.shared?.leave(maxMs - (performance.now() - beganMs));
  }

  /** Creates a prediction whose id the client has chosen, unless it exists. */
  async #createChosen(request: NewPrediction, once: Once): Promise<PredictionRecord> {
    const { kind, waitMs, client } = request;
    const record = await this.#creations.run(once, request.charge, () => this.#createOnce(request));
    if (hasEnded(record)) this.live.unread.delete(once.id);
    return hasEnded(record) ? record : ((await this.wait(kind, once.id, { waitMs, client })) ?? record);
  }

  /** Creates a prediction whose id the client knows, and may read from another process: the store must have it at once. */
  async #createOnce(request: NewPrediction): Promise<PredictionRecord> {
    if (this.#shared !== undefined) return this.#shared.create({ ...request, waitMs: 0 });
    const live = await this.#accept({ ...request, waitMs: 0 });
    await this.live.store(live);
    return live.record;
  }

  /** Reads the prediction of a client. A shared store has the state that all clients see. */
  async #read(id: string): Promise<PredictionRecord | undefined> {
    const live = this.#shared === undefined ? this.live.get(id) : undefined;
    return live?.record ?? this.#options.store.read(id);
  }

  /** Waits until the outcome is stored. Clients must not see it earlier. */
  async #written(live: LivePrediction | undefined): Promise<void> {
    if (live?.isOver && live.storage === "store") await this.#options.store.written(live.id);
  }

  /** Returns a promise only for a large body, because a promise would delay small predictions. */
  #accept(request: NewPrediction): LivePrediction | Promise<LivePrediction> {
    const { body, kind, charge } = request;
    try {
      // Checked again, because the queue may have become full while a large body arrived.
      if (typeof body !== "string") this.admit(request);
      const beganMs = performance.now();
      const { build } = this.live;
      const decoding = build.parts.bodies.decode(body, build.parts.maxInputs[kind], charge);
      return decoding instanceof Promise
        ? this.#beginLater(request, decoding, build, beganMs)
        : this.#begin(request, decoding, build, beganMs);
    } catch (error) {
      charge[Symbol.dispose]();
      throw error;
    }
  }

  /** The build that decodes the inputs also runs them, even if another build replaces it meanwhile. */
  async #beginLater(
    request: NewPrediction,
    decoding: Promise<DecodedBody>,
    build: RunningBuild,
    beganMs: number,
  ): Promise<LivePrediction> {
    build.enter();
    try {
      return this.#begin(request, await decoding, build, beganMs);
    } catch (error) {
      request.charge[Symbol.dispose]();
      throw error;
    } finally {
      build.ended();
    }
  }

  /**
   * Begins a prediction with its decoded inputs.
   * @param beganMs start of the decoding, in milliseconds of `performance.now()`
   */
  #begin(request: NewPrediction, { inputs, body }: DecodedBody, build: RunningBuild, beganMs: number): LivePrediction {
    const { kind, bytes, charge, timeoutMs = Infinity, client, origin, once, webhook, watcher } = request;
    const { limits, metrics, owner } = this.#options;
    const { flow, version } = build.parts;
    const [nowMs, createdAtMs] = [performance.now(), Date.now()];
    metrics.took("decode", nowMs - beganMs);
    const count = inputs.length;
    this.admit(request, count);
    const live = this.live.begin(
      {
        id: once?.id ?? newId(owner, createdAtMs) + client.idSuffix,
        kind,
        count,
        createdAtMs,
        timeoutMs: Math.min(timeoutMs, limits.timeoutMs),
        body,
        origin,
        digest: once?.digest,
        model: version,
        webhook,
      },
      {
        nowMs,
        build,
        inputs,
        bytes,
        charge,
        // An idle server omits `sender`, and the prediction gets share 1. A client with a larger share keeps its sender,
        // because its long prediction may still run when others wait.
        sender: flow?.needsSender || client.share > 1 ? client.sender : undefined,
      },
    );
    live.span?.took("decode", beganMs);
    if (watcher !== undefined) watcher.started(this.#watched(live, watcher.changed));
    return live;
  }

  #liveOf(kind: Kind, id: string): LivePrediction | undefined {
    const live = this.#shared === undefined ? this.live.get(id) : undefined;
    return live?.kind === kind ? live : undefined;
  }
}
