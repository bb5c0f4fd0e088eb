/** Creates and reads predictions for clients through the Redis queue. Any replica may run them. */
import { SconceError } from "../../base/errors.ts";
import { until } from "../../base/until.ts";
import type { Bodies } from "../../pipeline/inputs/bodies.ts";
import type { MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import { checkWait, noRoom } from "../admission.ts";
import type { PredictionMetrics } from "../metrics.ts";
import { Creations } from "../once.ts";
import type { AskedPrediction, Client, NewPrediction, Predictions, Watched } from "../predictions.ts";
import { hasEnded, type Kind, type PredictionRecord, pendingRecord } from "../record.ts";
import { storedBody } from "../store.ts";
import { Waits } from "../waits.ts";
import { admitWebhook, type Webhooks } from "../webhooks/webhooks.ts";
import { Awaited } from "./awaited.ts";
import { AwaitedEvents } from "./awaited-events.ts";
import type { Mailbox } from "./mailbox.ts";
import type { QueueDirectory } from "./queue-directory.ts";
import type { QueueState } from "./queue-state.ts";
import { isAnswerLost } from "./redis-link.ts";
import { type RetryEntry, RetryQueue } from "./retry-queue.ts";

export interface QueuedPredictionsOptions {
  readonly queues: QueueDirectory;
  readonly mailbox: Mailbox;
  readonly state: QueueState;
  readonly bodies: Bodies;
  readonly metrics: PredictionMetrics;
  readonly memory: MemoryAccount;
  readonly maxInputs: Readonly<Record<Kind, number>>;
  readonly timeoutMs: number;
  /** Undefined for a server that sends no webhooks. */
  readonly webhooks: Webhooks | undefined;
}

interface Cancellation extends RetryEntry {
  readonly kind: Kind;
  readonly id: string;
}

/** Milliseconds in which the replica that runs a canceled prediction can report its outputs. Then it ends without outputs. */
const CANCEL_MS = 1000;
/** Minimum milliseconds between two reads of a prediction that a request waits for, in case a notification was lost. */
const POLL_MS = 500;
/** Maximum cancellations that wait for Redis. Further predictions of disconnected clients run to their end. */
const MAX_CANCELLATIONS = 10_000;

export class QueuedPredictions implements Predictions {
  readonly #options: QueuedPredictionsOptions;
  readonly #awaited = new Map<string, Awaited>();
  readonly #waits = new Waits();
  readonly #creations: Creations;
  /** Cancellations of predictions whose ids no client has: the client disconnected, or the answer of Redis was lost. */
  readonly #cancellations: RetryQueue<Cancellation>;
  #isDraining = false;

  constructor(options: QueuedPredictionsOptions) {
    this.#options = options;
    const { own } = options.queues;
    this.#cancellations = new RetryQueue({ send: (batch) => own.cancelAll(batch), maxCount: MAX_CANCELLATIONS });
    this.#creations = new Creations((id) => own.read(id, { isAwaited: false }));
    options.mailbox.listen({
      ended: (record) => this.#ended(record),
      events: (id) => void this.#readEvents(this.#awaited.get(id)),
      endedLong: (id) => {
        const awaited = this.#awaited.get(id);
        if (awaited !== undefined) void this.#poll(awaited);
      },
    });
    options.state.onTick(() => this.#tick());
  }

  admit({ timeoutMs = Infinity, waitMs, webhook, client }: AskedPrediction): void {
    if (this.#isDraining) {
      throw new SconceError("not_ready", "the server is stopping and takes no new predictions", { refusal: "drain" });
    }
    if (webhook !== undefined) admitWebhook(this.#options.webhooks, webhook);
    const timeLimitMs = Math.min(timeoutMs, this.#options.timeoutMs);
    checkWait(this.#options.state.waitMs, Math.min(timeLimitMs, waitMs > 0 ? waitMs : Infinity));
    client.reserve();
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
    const id = once?.id ?? queues.newId() + client.idSuffix;
    const timeLimitMs = Math.min(timeoutMs, this.#options.timeoutMs);
    const isWaitedFor = waitMs > 0;
    using awaited = isWaitedFor ? this.#await(id) : undefined;
    let pending: PredictionRecord;
    try {
      this.admit(request);
      const beganMs = performance.now();
      const decoding = bodies.decode(body, maxInputs[kind], (added) => charge.mustGrow(added));
      const { inputs, body: decoded } = decoding instanceof Promise ? await decoding : decoding;
      const whole = storedBody(decoded);
      metrics.took("decode", performance.now() - beganMs);
      const count = inputs.length;
      const facts = { id, kind, count, digest: once?.digest };
      const limits = { bytes: Math.max(bytes, whole.length), timeoutMs: timeLimitMs, isWaitedFor };
      if (request.watcher !== undefined) queues.own.events.expect(id);
      const created = await queues.own.create({ ...facts, ...limits, body: whole, origin, webhook });
      if ("limit" in created) {
        // A client may create this id through another replica at the same time.
        const known = once && (await this.#creations.known(once));
        if (known !== undefined) return known;
        throw noRoom(created.items, state.waitMs, created.limit);
      }
      pending = pendingRecord({ id, kind, count, createdAtMs: created.createdAtMs });
    } catch (error) {
      // The client gets an error, but Redis may have the prediction, which nobody would read.
      if (isAnswerLost(error) && once === undefined) this.#abandon(kind, id, timeLimitMs);
      throw error;
    } finally {
      charge[Symbol.dispose]();
      // A server that takes the prediction counts it.
      client.release();
    }
    if (awaited === undefined) return pending;
    // Redis has the prediction, so the client gets its id even if Redis fails now.
    const record = await this.#end(awaited, client, waitMs).catch(() => pending);
    // A disconnected client does not know the id, so only a webhook could deliver the outcome.
    if (webhook === undefined && !awaited.isOver && client.signal.aborted) this.#abandon(kind, id, timeLimitMs);
    if (record === undefined)
      throw new SconceError("queue_unavailable", "the queue has lost this prediction; send it again");
    return record;
  }

  async get(kind: Kind, id: string): Promise<PredictionRecord | undefined> {
    const record = await this.#read(id, { isAwaited: false });
    return record?.kind === kind ? record : undefined;
  }

  async cancel(kind: Kind, id: string): Promise<PredictionRecord | undefined> {
    const queue = this.#options.queues.own;
    using awaited = this.#await(id);
    const record = await queue.cancel(kind, id, false);
    if (record === undefined || hasEnded(record)) return record;
    await Promise.race([new Promise<void>((resolve) => awaited.onceOver(resolve)), Bun.sleep(CANCEL_MS)]);
    return (awaited.isOver ? awaited.record : undefined) ?? queue.cancel(kind, id, true);
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
    awaited.events ??= new AwaitedEvents(id, this.#options.memory, () => awaited.eventsAdded());
    const { events } = awaited;
    const watched = {
      get record() {
        return awaited.record;
      },
      get outputs() {
        return events.outputs;
      },
      get parts() {
        return events.parts;
      },
      [Symbol.dispose]() {
        stop();
        awaited[Symbol.dispose]();
      },
    };
    try {
      const record = await this.#read(id, { isAwaited: true });
      if (record?.kind === kind) await this.#readEvents(awaited);
      awaited.update(record);
    } catch (error) {
      watched[Symbol.dispose]();
      throw error;
    }
    awaited.polledMs = performance.now();
    if (watched.record?.kind === kind) return watched;
    watched[Symbol.dispose]();
    return undefined;
  }

  refuse(): void {
    this.#isDraining = true;
  }

  /** Waits at most `maxMs` milliseconds for predictions that HTTP requests wait for. Other requests then get the current state. */
  async release(maxMs: number): Promise<void> {
    await until(() => this.#awaited.size === 0, maxMs);
    for (const awaited of this.#awaited.values()) awaited.release();
  }

  #read(id: string, options: { readonly isAwaited: boolean }): Promise<PredictionRecord | undefined> {
    return this.#options.queues.own.read(id, options);
  }

  /** Waits until the prediction ends or the client's wait is over. */
  async #end(awaited: Awaited, client: Client, waitMs: number): Promise<PredictionRecord | undefined> {
    awaited.polledMs = performance.now();
    await this.#waits.until(awaited, client, waitMs);
    return awaited.isOver ? awaited.record : this.#read(awaited.id, { isAwaited: false });
  }

  #await(id: string): Awaited {
    let awaited = this.#awaited.get(id);
    if (awaited === undefined) {
      awaited = new Awaited(id, () => this.#awaited.delete(id));
      this.#awaited.set(id, awaited);
    }
    return awaited.shared();
  }

  /** Cancels a prediction whose id no client has. Gives up after `timeLimitMs`, because the prediction has ended by then. */
  #abandon(kind: Kind, id: string, timeLimitMs: number): void {
    this.#cancellations.add({ kind, id, bytes: 0, expiresMs: performance.now() + timeLimitMs });
  }

  #tick(): void {
    void this.#options.queues.refresh().catch(() => {});
    const now = performance.now();
    for (const awaited of this.#awaited.values()) {
      if (now - awaited.polledMs < POLL_MS) continue;
      awaited.polledMs = now;
      void this.#poll(awaited);
    }
  }

  /** Ends the wait for a prediction. With an event stream, reads the last events first, because the stream must send them before the end. */
  #ended(record: PredictionRecord): void {
    const awaited = this.#awaited.get(record.id);
    if (awaited?.events === undefined) awaited?.update(record);
    else void this.#readEvents(awaited).then(() => awaited.update(record));
  }

  /** Reads new events if an event stream watches the prediction. Never throws. */
  async #readEvents(awaited: Awaited | undefined): Promise<void> {
    if (awaited?.events === undefined) return;
    const { queues } = this.#options;
    await awaited.events.read(queues.own.events);
  }

  async #poll(awaited: Awaited): Promise<void> {
    try {
      const record = await this.#read(awaited.id, { isAwaited: true });
      await this.#readEvents(awaited);
      awaited.update(record);
    } catch {
      // The next tick polls again.
    }
  }
}
