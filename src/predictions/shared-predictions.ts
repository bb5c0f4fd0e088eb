/** The requests of this process's clients in a shared store. Each process may run them, and their clients follow them here. */
import { SconceError } from "../base/errors.ts";
import { noRoom } from "./admission.ts";
import { newId } from "./ids.ts";
import type { LivePredictions, LivePredictionsOptions } from "./live-predictions.ts";
import type { Creations } from "./once.ts";
import { hasEnded, type Kind, type PredictionRecord, pendingRecord } from "./record.ts";
import { type AskedPrediction, type Client, type NewPrediction, storedBody } from "./request.ts";
import type { SharedStore } from "./store.ts";
import type { Waits } from "./waits.ts";
import type { Watched } from "./watched.ts";

export interface SharedPredictionsOptions extends Pick<LivePredictionsOptions, "store" | "limits" | "metrics"> {
  readonly shared: SharedStore;
  readonly live: LivePredictions;
  readonly waits: Waits;
  readonly creations: Creations;
  readonly admit: (asked: AskedPrediction) => void;
}

/** First character of the ids of predictions in queues. Ids of a server without `--queue` begin with other characters. */
const OWNER = "_";

export class SharedPredictions {
  readonly #options: SharedPredictionsOptions;

  constructor(options: SharedPredictionsOptions) {
    this.#options = options;
  }

  /** Stores the request, and waits for its outcome as long as the client does. */
  async create(request: NewPrediction): Promise<PredictionRecord> {
    const { timeoutMs = Infinity, waitMs, client, once, webhook } = request;
    const { shared, store, limits, waits } = this.#options;
    const id = once?.id ?? newId(OWNER) + client.idSuffix;
    const timeLimitMs = Math.min(timeoutMs, limits.timeoutMs);
    using followed = waitMs > 0 ? shared.follow(id) : undefined;
    const accepted = await this.#accept(request, id, timeLimitMs);
    if (followed === undefined || hasEnded(accepted)) return accepted;
    await waits.until(followed, client, waitMs);
    // The store has the prediction, so the client gets its id even if the store fails now.
    const record = (followed.isOver ? followed.record : undefined) ?? (await store.read(id).catch(() => accepted));
    // A disconnected client does not know the id, so only a webhook could deliver the outcome.
    if (webhook === undefined && !followed.isOver && client.signal.aborted)
      shared.abandon(id, performance.now() + timeLimitMs);
    if (record === undefined)
      throw new SconceError("queue_unavailable", "the queue has lost this prediction; send it again");
    return record;
  }

  async wait(
    kind: Kind,
    id: string,
    { waitMs, client }: { readonly waitMs: number; readonly client: Client },
  ): Promise<PredictionRecord | undefined> {
    const { shared, store, waits } = this.#options;
    using followed = shared.follow(id);
    const record = await followed.read();
    if (record?.kind !== kind) return undefined;
    if (hasEnded(record)) return record;
    await waits.until(followed, client, waitMs);
    return (followed.isOver ? followed.record : undefined) ?? store.read(id);
  }

  async watch(kind: Kind, id: string, changed: () => void): Promise<Watched | undefined> {
    using stack = new DisposableStack();
    const followed = stack.use(this.#options.shared.follow(id));
    const observer = { changed };
    followed.watch(observer);
    stack.defer(() => followed.unwatch(observer));
    await followed.readOutputs();
    if (followed.record?.kind !== kind) return undefined;
    const owned = stack.move();
    return {
      get record() {
        return followed.record;
      },
      get events() {
        return followed.events;
      },
      [Symbol.dispose]: () => owned.dispose(),
    };
  }

  async #accept(request: NewPrediction, id: string, timeoutMs: number): Promise<PredictionRecord> {
    const { kind, body, charge, waitMs, origin, once, webhook, watcher } = request;
    const { live, shared, store, metrics, creations, admit } = this.#options;
    try {
      admit(request);
      const beganMs = performance.now();
      const { bodies, maxInputs } = live.build.parts;
      const decoding = bodies.decode(body, maxInputs[kind], charge);
      const decoded = decoding instanceof Promise ? await decoding : decoding;
      const facts = { id, kind, count: decoded.inputs.length, digest: once?.digest };
      const whole = storedBody(decoded);
      metrics.took("decode", performance.now() - beganMs);
      const needs = { isWaitedFor: waitMs > 0, isWatched: watcher !== undefined };
      const told = { ...facts, ...needs, body: whole, createdAtMs: Date.now(), timeoutMs, origin, webhook };
      const accepted = await store.accept(told);
      if (!("limit" in accepted)) return pendingRecord({ ...facts, createdAtMs: accepted.createdAtMs });
      // A client may create this id through another process at the same time.
      const known = once && (await creations.known(once));
      if (known !== undefined) return known;
      throw noRoom(accepted.items, shared.waitMs, accepted.limit);
    } finally {
      charge[Symbol.dispose]();
    }
  }
}
