/** Predictions as every replica answers for them: they lie in the queue, whichever replica runs them. */
import { SconceError } from "../../base/errors.ts";
import type { Bodies } from "../inputs/bodies.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { checkWait, noRoom } from "../predictions/admission.ts";
import { Creations } from "../predictions/once.ts";
import type { AskedPrediction, Client, NewPrediction, Predictions, Watched } from "../predictions/predictions.ts";
import { hasEnded, type Kind, type PredictionRecord, pendingRecord } from "../predictions/record.ts";
import { Waits } from "../predictions/waits.ts";
import { admitWebhook, type Webhooks } from "../webhooks/webhooks.ts";
import { Awaited } from "./awaited.ts";
import { Forsaken } from "./forsaken.ts";
import type { Mailbox } from "./mailbox.ts";
import type { QueueDirectory } from "./queue-directory.ts";
import type { QueueState } from "./queue-state.ts";
import { isAnswerLost } from "./redis-link.ts";

export interface QueuedPredictionsOptions {
  readonly queues: QueueDirectory;
  readonly mailbox: Mailbox;
  readonly state: QueueState;
  readonly bodies: Bodies;
  readonly metrics: Metrics;
  readonly maxInputs: Readonly<Record<Kind, number>>;
  readonly timeoutMs: number;
  /** Undefined where nobody can be told. */
  readonly webhooks: Webhooks | undefined;
}

/** How long a cancelled prediction's worker may take to say what outputs there are. */
const CANCEL_MS = 1000;
/** From when on a prediction that is waited for is looked at once a second, in case that its mail, or the whole queue, was lost. */
const LOOK_MS = 500;

export class QueuedPredictions implements Predictions {
  readonly #options: QueuedPredictionsOptions;
  readonly #awaited = new Map<string, Awaited>();
  readonly #waits = new Waits();
  readonly #creations: Creations;
  readonly #forsaken: Forsaken;
  #isDraining = false;
  #drained: (() => void) | undefined;

  constructor(options: QueuedPredictionsOptions) {
    this.#options = options;
    const { own } = options.queues;
    this.#forsaken = new Forsaken((ones) => own.forsake(ones));
    this.#creations = new Creations(async (id) => {
      const record = await own.read(id, { isAwaited: false });
      return record && { record, digest: await own.digestOf(id) };
    });
    options.mailbox.listen({
      ended: (record) => this.#awaited.get(record.id)?.end(record),
      endedLong: (id) => {
        const awaited = this.#awaited.get(id);
        if (awaited !== undefined) void this.#look(id, awaited);
      },
    });
    options.state.onTick(() => this.#tick());
  }

  admit({ timeoutMs = Infinity, waitMs, webhook }: AskedPrediction): void {
    if (this.#isDraining) {
      throw new SconceError("not_ready", "the server is stopping and takes no new predictions", { refusal: "drain" });
    }
    if (webhook !== undefined) admitWebhook(this.#options.webhooks, webhook);
    const timeLimitMs = Math.min(timeoutMs, this.#options.timeoutMs);
    checkWait(this.#options.state.waitMs, Math.min(timeLimitMs, waitMs > 0 ? waitMs : Infinity));
  }

  async create(request: NewPrediction): Promise<PredictionRecord> {
    const { once, kind, charge, waitMs, client } = request;
    if (once === undefined) return this.#create(request);
    const record = await this.#creations.run(once, charge, () => this.#create({ ...request, waitMs: 0 }));
    return hasEnded(record) ? record : ((await this.wait(kind, once.id, { waitMs, client })) ?? record);
  }

  async #create(request: NewPrediction): Promise<PredictionRecord> {
    const { kind, body, bytes, charge, timeoutMs = Infinity, waitMs, client, origin, once, webhook } = request;
    const { bodies, queues, metrics, maxInputs, state } = this.#options;
    const id = once?.id ?? queues.newId();
    const timeLimitMs = Math.min(timeoutMs, this.#options.timeoutMs);
    using awaited = waitMs > 0 ? this.#await(id) : undefined;
    let pending: PredictionRecord;
    try {
      this.admit(request);
      const beganMs = performance.now();
      const decoding = bodies.decode(body, maxInputs[kind]);
      const { inputs, body: whole } = decoding instanceof Promise ? await decoding : decoding;
      metrics.took("decode", performance.now() - beganMs);
      const count = inputs.length;
      const isWaitedFor = waitMs > 0;
      const asked = {
        id,
        kind,
        count,
        bytes,
        timeoutMs: timeLimitMs,
        isWaitedFor,
        body: whole,
        origin,
        digest: once?.digest,
        webhook,
      };
      const created = await queues.own.create(asked);
      if ("limit" in created) {
        // Another replica was faster.
        const known = once && (await this.#creations.known(once));
        if (known !== undefined) return known;
        throw noRoom(created.items, state.waitMs, created.limit);
      }
      pending = pendingRecord({ id, kind, count, createdAtMs: created.createdAtMs });
    } catch (error) {
      // It may be in the queue all the same: its client is told that it is not.
      if (isAnswerLost(error) && once === undefined) void this.#forsake(kind, id, timeLimitMs);
      throw error;
    } finally {
      charge[Symbol.dispose]();
    }
    if (awaited === undefined) return pending;
    // Accepted is accepted: where the queue is away now its client is told the id.
    const record = await this.#end(awaited, client, waitMs).catch(() => pending);
    // A client that left was never told the id: nobody can read the outcome, unless somebody is told of it.
    if (webhook === undefined && !awaited.isOver && client.signal.aborted) await this.#forsake(kind, id, timeLimitMs);
    if (record === undefined) throw lost();
    return record;
  }

  async get(kind: Kind, id: string): Promise<PredictionRecord | undefined> {
    const record = await this.#read(id, { isAwaited: false });
    return record?.kind === kind ? record : undefined;
  }

  async cancel(kind: Kind, id: string): Promise<PredictionRecord | undefined> {
    const queue = await this.#options.queues.of(id);
    if (queue === undefined) return undefined;
    using awaited = this.#await(id);
    const record = await queue.cancel(kind, id, false);
    if (record === undefined || hasEnded(record)) return record;
    await Promise.race([new Promise<void>((resolve) => awaited.onceOver(resolve)), Bun.sleep(CANCEL_MS)]);
    return awaited.record ?? queue.cancel(kind, id, true);
  }

  async wait(
    kind: Kind,
    id: string,
    { waitMs, client }: { readonly waitMs: number; readonly client: Client },
  ): Promise<PredictionRecord | undefined> {
    if (waitMs <= 0) return this.get(kind, id);
    using awaited = this.#await(id);
    const record = await this.#read(id, { isAwaited: true });
    if (record?.kind !== kind) return undefined;
    return hasEnded(record) ? record : await this.#end(awaited, client, waitMs);
  }

  async watch(kind: Kind, id: string, changed: () => void): Promise<Watched | undefined> {
    const awaited = this.#await(id);
    const stop = awaited.watch(changed);
    const watched = {
      get record() {
        return awaited.latest;
      },
      outputs: [],
      [Symbol.dispose]() {
        stop();
        awaited[Symbol.dispose]();
      },
    };
    try {
      awaited.looked(await this.#read(id, { isAwaited: true }));
    } catch (error) {
      watched[Symbol.dispose]();
      throw error;
    }
    awaited.lookedMs = performance.now();
    if (watched.record?.kind === kind) return watched;
    watched[Symbol.dispose]();
    return undefined;
  }

  /** Takes nothing new; resolves when nobody waits here any more. */
  drain(): Promise<void> {
    this.#isDraining = true;
    return new Promise((resolve) => {
      this.#drained = resolve;
      if (this.#awaited.size === 0) resolve();
    });
  }

  /** Answers all that wait with what there is: nobody is left who could end it soon. */
  release(): void {
    for (const awaited of this.#awaited.values()) awaited.release();
  }

  /** Of whichever queue; mail comes from this process's own alone: those of others are looked at once a second. */
  async #read(id: string, { isAwaited }: { readonly isAwaited: boolean }): Promise<PredictionRecord | undefined> {
    const { queues } = this.#options;
    const queue = await queues.of(id);
    return queue?.read(id, { isAwaited: isAwaited && queue === queues.own });
  }

  /** The record at its end, or as it stands when the client waits no longer. */
  async #end(awaited: Awaited, client: Client, waitMs: number): Promise<PredictionRecord | undefined> {
    awaited.lookedMs = performance.now();
    await this.#waits.until(awaited, client, waitMs);
    return awaited.isOver ? awaited.record : this.#read(awaited.id, { isAwaited: false });
  }

  #await(id: string): Awaited {
    let awaited = this.#awaited.get(id);
    if (awaited === undefined) {
      awaited = new Awaited(id, () => {
        this.#awaited.delete(id);
        if (this.#awaited.size === 0) this.#drained?.();
      });
      this.#awaited.set(id, awaited);
    }
    return awaited.shared();
  }

  /** @param leftMs of its time, at most */
  #forsake(kind: Kind, id: string, leftMs: number): Promise<void> {
    return this.#forsaken.add({ id, kind, deadlineMs: performance.now() + leftMs });
  }

  #tick(): void {
    void this.#options.queues.refresh().catch(() => {});
    void this.#forsaken.cancelAll();
    const now = performance.now();
    for (const [id, awaited] of this.#awaited) {
      if (now - awaited.lookedMs < LOOK_MS) continue;
      awaited.lookedMs = now;
      void this.#look(id, awaited);
    }
  }

  async #look(id: string, awaited: Awaited): Promise<void> {
    try {
      awaited.looked(await this.#read(id, { isAwaited: true }));
    } catch {
      // It is looked at again.
    }
  }
}

function lost(): SconceError {
  return new SconceError("queue_unavailable", "the queue has lost this prediction; send it again");
}
