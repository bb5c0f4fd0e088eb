/** The life of predictions in this process: admission, the way to their end, what is kept of them. Knows no HTTP. */
import { codedError, SconceError } from "../errors.ts";
import { type Bodies, HELD_PER_BYTE } from "../inputs/bodies.ts";
import { type InputList, noInputs } from "../inputs/input-list.ts";
import type { Charge } from "../memory/charge.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import type { Metrics } from "../metrics.ts";
import type { ItemFlow } from "../serving/item-flow.ts";
import { ItemList } from "../serving/item-list.ts";
import type { ItemPipeline } from "../serving/item-pipeline.ts";
import { Deadlines } from "./deadlines.ts";
import { workOnDemo } from "./demo.ts";
import { newId } from "./ids.ts";
import { LivePrediction } from "./live.ts";
import { OutputList } from "./output-list.ts";
import { OutputMemory } from "./output-memory.ts";
import type { Client, NewPrediction, Predictions } from "./predictions.ts";
import { type EndedRecord, hasEnded, type Kind, type PredictionRecord } from "./record.ts";
import type { KeptRequest, LeftRequest, PredictionStore } from "./store.ts";
import { Unread } from "./unread.ts";
import { Waits } from "./waits.ts";

export interface ServiceLimits {
  /** Most inputs of one request. */
  readonly maxInputs: Readonly<Record<Kind, number>>;
  /** Most inputs that were accepted and have not ended, over all predictions. */
  readonly maxQueuedItems: number;
  /** Most body bytes of the predictions that have not ended. */
  readonly maxQueuedBytes: number;
  /** A prediction's time limit. */
  readonly timeoutMs: number;
  /** Most bytes of the outputs of one prediction. */
  readonly maxResultBytes: number;
  /** Most bytes of a demo prediction's logs. */
  readonly maxLogBytes: number;
}

/** What was accepted and has not ended. */
export interface Unfinished {
  items: number;
  bytes: number;
}

export interface ServiceOptions {
  readonly bodies: Bodies;
  readonly flow: ItemFlow;
  readonly pipeline: ItemPipeline;
  readonly store: PredictionStore;
  readonly limits: ServiceLimits;
  readonly metrics: Metrics;
  readonly memory: MemoryAccount;
  /** Counts what this process has accepted and not ended, where others see it. */
  readonly unfinished?: Unfinished;
  /** Begins the ids that this process gives out: a process of the same server tells by it whose they are. */
  readonly owner: string;
  /** What the other processes of this server have accepted and not ended, which counts against the same limits. */
  readonly others?: () => Readonly<Unfinished>;
  /** Told of what fails, for the operator's log: the client is told by the prediction. */
  readonly onFault?: (where: string, error: SconceError) => void;
}

/** A request that was running at this many deaths of its process may well be their cause. */
const MAX_DEATHS = 2;

/** Whoever is told to come back later than this may as well come sooner: the queue will be another one. */
const MAX_RETRY_S = 60;

export class PredictionService implements Predictions {
  readonly #options: ServiceOptions;
  readonly #live = new Map<string, LivePrediction>();
  readonly #unfinished: Unfinished;
  readonly #deadlines = new Deadlines<LivePrediction>((live) => expire(live));
  readonly #waits = new Waits();
  readonly #unread = new Unread();
  #isDraining = false;
  #isAbandoned = false;
  readonly #drained = Promise.withResolvers<void>();

  constructor(options: ServiceOptions) {
    this.#options = options;
    this.#unfinished = options.unfinished ?? { items: 0, bytes: 0 };
  }

  /** Predictions that have not ended, and what they hold. */
  get unfinished(): Readonly<Unfinished & { predictions: number }> {
    const { items, bytes } = this.#unfinished;
    return { items, bytes, predictions: this.#live.size };
  }

  async create(request: NewPrediction): Promise<PredictionRecord> {
    const { kind, body, bytes, charge, timeoutMs = Infinity, waitMs, client } = request;
    const { bodies, limits, owner } = this.#options;
    let live: LivePrediction;
    try {
      const decoding = bodies.decode(body, limits.maxInputs[kind]);
      const decoded = decoding instanceof Promise ? await decoding : decoding;
      const count = decoded.inputs.length;
      const timeLimitMs = Math.min(timeoutMs, limits.timeoutMs);
      this.#admit({ items: count, bytes, patienceMs: waitMs > 0 ? Math.min(timeLimitMs, waitMs) : timeLimitMs });
      live = this.#begin(
        {
          id: newId(owner),
          kind,
          count,
          createdAtMs: Date.now(),
          timeoutMs: timeLimitMs,
          body: decoded.body,
        },
        { inputs: decoded.inputs, bytes, charge },
      );
    } catch (error) {
      charge[Symbol.dispose]();
      throw error;
    }
    if (waitMs > 0) {
      await this.#waits.until(live, client, waitMs);
      // A client that left was never told the id: nobody can read the outcome.
      if (!live.isOver && client.signal.aborted) live.end("Canceled");
    }
    await this.#keep(live);
    return live.record;
  }

  async get(kind: Kind, id: string): Promise<PredictionRecord | undefined> {
    const record = this.#live.get(id)?.record ?? (await this.#options.store.get(id));
    if (record?.kind !== kind) return undefined;
    if (hasEnded(record)) this.#unread.read(id);
    return record;
  }

  async cancel(kind: Kind, id: string): Promise<PredictionRecord | undefined> {
    const live = this.#liveOf(kind, id);
    live?.end("Canceled");
    this.#unread.read(id);
    const record = live?.record ?? (await this.get(kind, id));
    if (record === undefined || hasEnded(record)) return record;
    throw new SconceError("not_ready", "the process that has this prediction is starting again; try again then");
  }

  async wait(
    kind: Kind,
    id: string,
    { waitMs, client }: { readonly waitMs: number; readonly client: Client },
  ): Promise<PredictionRecord | undefined> {
    const live = this.#liveOf(kind, id);
    if (live === undefined) return this.get(kind, id);
    await this.#waits.until(live, client, waitMs);
    if (live.isOver) this.#unread.read(id);
    return live.record;
  }

  watch(kind: Kind, id: string, changed: (record: PredictionRecord) => void): (() => void) | undefined {
    return this.#liveOf(kind, id)?.watch(changed);
  }

  /** Goes on with what earlier processes with these owners left behind; limits do not refuse what was accepted. */
  async resume(owners: (owner: string) => boolean): Promise<number> {
    let resumed = 0;
    for await (const left of this.#options.store.left(owners)) {
      await this.#resumeOne(left);
      resumed += 1;
    }
    return resumed;
  }

  /** Takes nothing new and resolves when all that was accepted has ended. */
  drain(): Promise<void> {
    this.#isDraining = true;
    if (this.#live.size === 0) this.#drained.resolve();
    return this.#drained.promise;
  }

  /** Resolves when every outcome of late was read, or after about `maxMs`. */
  allRead(maxMs: number): Promise<void> {
    return this.#unread.all(maxMs);
  }

  /** What has not ended from now on is left to the store as a request, for the next process to go on with. */
  abandon(): void {
    this.#isAbandoned = true;
    for (const live of this.#live.values()) if (live.isKept && live.hasBegun) this.#options.store.interrupted(live.id);
  }

  #liveOf(kind: Kind, id: string): LivePrediction | undefined {
    const live = this.#live.get(id);
    return live?.kind === kind ? live : undefined;
  }

  async #resumeOne({ leftMs, deaths, ...request }: LeftRequest): Promise<void> {
    const { id, kind, body, count } = request;
    const bytes = typeof body === "string" ? Buffer.byteLength(body) : body.length;
    const charge = this.#options.memory.add("bodies", HELD_PER_BYTE * bytes);
    try {
      const { inputs } = await this.#options.bodies.decode(typeof body === "string" ? body : [body], count);
      const live = this.#begin(request, { inputs, bytes, charge, leftMs, isHeldBack: deaths >= MAX_DEATHS });
      if (deaths >= MAX_DEATHS) live.end(`The server ended ${deaths} times while this ran; it is not run again`);
    } catch (error) {
      // The model behind the store is another one now.
      const live = this.#begin(request, { inputs: noInputs, bytes, charge, leftMs, isHeldBack: true });
      live.end(`After a restart the inputs are no longer taken: ${codedError(error).message}`);
      this.#options.onFault?.(`${nounOf(kind)} ${id}`, codedError(error));
    }
  }

  /**
   * @param patienceMs how long the request can wait for its turn
   * @throws SconceError `queue_full`, `not_ready`
   */
  #admit({ items, bytes, patienceMs }: { items: number; bytes: number; patienceMs: number }): void {
    if (this.#isDraining) throw new SconceError("not_ready", "the server is stopping and takes no new predictions");
    const { flow, limits, others } = this.#options;
    const elsewhere = others?.() ?? { items: 0, bytes: 0 };
    const allItems = this.#unfinished.items + elsewhere.items;
    const allBytes = this.#unfinished.bytes + elsewhere.bytes;
    const waitMs = flow.waitMs();
    // A body alone in the queue is always taken: the limit of one body is the server's.
    const isFull =
      allItems + items > limits.maxQueuedItems || (allBytes > 0 && allBytes + bytes > limits.maxQueuedBytes);
    if (!isFull && waitMs <= patienceMs) return;
    const reason = isFull
      ? `the queue is full (${allItems} inputs of predictions that have not ended)`
      : `the queue is too long (${secondsOf(waitMs)} s) for a request that waits ${secondsOf(patienceMs)} s`;
    const retryAfterS = Math.min(MAX_RETRY_S, Math.max(1, secondsOf(isFull ? waitMs : waitMs - patienceMs)));
    throw new SconceError("queue_full", `${reason}; try again later`, { retryAfterS });
  }

  #begin(
    request: KeptRequest,
    work: {
      readonly inputs: InputList;
      readonly bytes: number;
      readonly charge: Charge;
      readonly leftMs?: number;
      readonly isHeldBack?: boolean;
    },
  ): LivePrediction {
    const { inputs, bytes, charge, leftMs = request.timeoutMs, isHeldBack = false } = work;
    const isKept = work.leftMs !== undefined;
    const live = new LivePrediction({
      request,
      bytes,
      charge,
      deadlineMs: performance.now() + leftMs,
      onEnd: (ended, record) => this.#ended(ended, record),
    });
    live.isKept = isKept;
    this.#unfinished.items += live.count;
    this.#unfinished.bytes += bytes;
    this.#live.set(live.id, live);
    this.#deadlines.add(live);
    if (isHeldBack) return live;
    if (live.kind === "demo") this.#runDemo(live, inputs);
    else this.#run(live, inputs);
    return live;
  }

  #run(live: LivePrediction, inputs: InputList): void {
    const { flow, pipeline, limits, memory, onFault } = this.#options;
    const outputs = new OutputList({
      live,
      encode: (output) => pipeline.encode(output),
      onBegun: () => this.#hasBegun(live),
      onFault: (index, error) => onFault?.(`prediction ${live.id}, input ${index}`, error),
      memory: new OutputMemory({ live, memory, maxResultBytes: limits.maxResultBytes }),
    });
    const list = new ItemList(inputs, outputs);
    live.begin({
      failure: (message) => outputs.failure(message),
      release: () => {
        outputs.release();
        flow.end(list);
      },
    });
    flow.run(list);
  }

  #runDemo(live: LivePrediction, inputs: InputList): void {
    const { flow, pipeline, limits, memory: account, onFault } = this.#options;
    const { maxLogBytes, maxResultBytes } = limits;
    const onBegun = () => this.#hasBegun(live);
    const memory = new OutputMemory({ live, memory: account, maxResultBytes });
    workOnDemo(live, inputs, { flow, pipeline, onBegun, maxLogBytes, memory }).catch((error: unknown) => {
      if (live.isOver) return;
      const coded = codedError(error);
      onFault?.(`demo prediction ${live.id}`, coded);
      live.end(coded.message);
    });
  }

  #hasBegun(live: LivePrediction): void {
    live.hasBegun = true;
    if (live.isKept && !this.#isAbandoned) this.#options.store.begun(live.id);
  }

  /** Resolves when the request is kept, or it has ended and need not be. */
  async #keep(live: LivePrediction): Promise<void> {
    const { request } = live;
    if (request === undefined || live.isKept) return;
    live.isKept = true;
    try {
      await this.#options.store.create(request);
    } catch (error) {
      live.isKept = false;
      live.end("Canceled");
      throw error;
    }
    live.request = undefined;
    if (live.hasBegun && !live.isOver && !this.#isAbandoned) this.#options.store.begun(live.id);
  }

  #ended(live: LivePrediction, record: EndedRecord): void {
    const { metrics, store } = this.#options;
    this.#live.delete(live.id);
    if (live.isKept) this.#unread.ended(live.id);
    this.#deadlines.delete(live);
    this.#unfinished.items -= live.count;
    this.#unfinished.bytes -= live.bytes;
    if (!(this.#isAbandoned && live.isKept)) store.finish(record);
    metrics.predictionEnded({
      status: record.outcome.status,
      seconds: (performance.now() - live.createdAtMs) / 1000,
      itemsSucceeded: live.itemsSucceeded,
      itemsFailed: live.count - live.itemsSucceeded,
    });
    if (this.#isDraining && this.#live.size === 0) this.#drained.resolve();
  }
}

function secondsOf(ms: number): number {
  return Math.ceil(ms / 1000);
}

function expire(live: LivePrediction): void {
  live.end(`Timed out after ${Math.round(live.timeoutMs / 10) / 100} s`);
}

function nounOf(kind: Kind): string {
  return kind === "demo" ? "demo prediction" : "prediction";
}
