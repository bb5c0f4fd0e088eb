/** The life of predictions in this process: their beginning, the way to their end, what is kept of them. Knows no HTTP. */
import { codedError, SconceError } from "../errors.ts";
import { type Bodies, HELD_PER_BYTE } from "../inputs/bodies.ts";
import { type InputList, noInputs } from "../inputs/input-list.ts";
import { isLogged } from "../log.ts";
import type { Charge } from "../memory/charge.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import { reasonOf } from "../metrics/labels.ts";
import type { Metrics } from "../metrics.ts";
import type { ItemFlow } from "../serving/item-flow.ts";
import type { ItemPipeline } from "../serving/item-pipeline.ts";
import type { Sender } from "../serving/suspects.ts";
import { Admission, type AdmissionLimits, type Unfinished } from "./admission.ts";
import { Deadlines } from "./deadlines.ts";
import { workOnDemo } from "./demo.ts";
import { newId } from "./ids.ts";
import { type ItemWorkOptions, workOnItems } from "./item-work.ts";
import { LivePrediction } from "./live.ts";
import { checkSame, InOrder, type Once } from "./once.ts";
import { OutputMemory } from "./output-memory.ts";
import type { AskedPrediction, Client, NewPrediction, Origin, Predictions, Watched } from "./predictions.ts";
import { type EndedRecord, hasEnded, type Kind, type PredictionRecord } from "./record.ts";
import type { KeptRequest, LeftRequest, PredictionStore } from "./store.ts";
import { Unread } from "./unread.ts";
import { Waits } from "./waits.ts";

export interface ServiceLimits extends AdmissionLimits {
  /** Most inputs of one request. */
  readonly maxInputs: Readonly<Record<Kind, number>>;
  /** A prediction's time limit. */
  readonly timeoutMs: number;
  /** Most bytes of the outputs of one prediction. */
  readonly maxResultBytes: number;
  /** Most bytes of a demo prediction's logs. */
  readonly maxLogBytes: number;
}

/** The prediction that a log line is about. */
export interface Logged {
  readonly id: string;
  readonly origin: Origin | undefined;
}

export interface ServiceOptions {
  readonly bodies: Bodies;
  readonly flow: ItemFlow;
  readonly pipeline: ItemPipeline;
  readonly store: PredictionStore;
  readonly limits: ServiceLimits;
  readonly metrics: Metrics;
  readonly memory: MemoryAccount;
  readonly unfinished?: Unfinished | undefined;
  /** Begins the ids that this process gives out: a process of the same server tells by it whose they are. */
  readonly owner: string;
  readonly others?: (() => Readonly<Unfinished>) | undefined;
  /** Told of what fails, for the operator's log: the client is told by the prediction. */
  readonly onFault?: (where: string, error: SconceError, about: Logged) => void;
  /** Told where each prediction stands, when the log asks for that. */
  readonly onTrace?: (line: string, about: Logged) => void;
}

/** A request that was running at this many deaths of its process may well be their cause. */
const MAX_DEATHS = 2;

export class PredictionService implements Predictions {
  readonly #options: ServiceOptions;
  readonly #live = new Map<string, LivePrediction>();
  readonly #admission: Admission;
  readonly #deadlines = new Deadlines<LivePrediction>((live) => this.#expire(live));
  readonly #waits = new Waits();
  readonly #unread = new Unread();
  readonly #creations = new InOrder();
  #isDraining = false;
  #isAbandoned = false;
  readonly #drained = Promise.withResolvers<void>();

  constructor(options: ServiceOptions) {
    this.#options = options;
    this.#admission = new Admission(options);
  }

  /** Predictions that have not ended, and what they hold. */
  get unfinished(): Readonly<Unfinished & { predictions: number }> {
    const { items, bytes } = this.#admission.unfinished;
    return { items, bytes, predictions: this.#live.size };
  }

  /** For how long the oldest prediction has waited that has an input to be run, in milliseconds. */
  get oldestWaitMs(): number {
    // In the order in which they came.
    for (const live of this.#live.values()) if (live.isWaiting) return performance.now() - live.createdAtMs;
    return 0;
  }

  admit(asked: AskedPrediction, items = 1): void {
    if (this.#isDraining) {
      throw new SconceError("not_ready", "the server is stopping and takes no new predictions", { refusal: "drain" });
    }
    const { bytes, timeoutMs = Infinity, waitMs } = asked;
    this.#admission.check({ items, bytes, waitMs, timeLimitMs: Math.min(timeoutMs, this.#options.limits.timeoutMs) });
  }

  async create(request: NewPrediction): Promise<PredictionRecord> {
    const { once, kind, waitMs, client, charge } = request;
    if (once !== undefined) {
      const { id } = once;
      const record = await this.#creations.run(id, async () => {
        using unused = new DisposableStack();
        unused.use(charge);
        const known = await this.#known(once);
        if (known !== undefined) return known;
        unused.move();
        // It is kept from the start: a client that waits for it is as one that will come back.
        const live = await this.#accept({ ...request, waitMs: 0 });
        await this.#keep(live);
        return live.record;
      });
      return (await this.wait(kind, id, { waitMs, client })) ?? record;
    }
    const live = await this.#accept(request);
    if (waitMs > 0) {
      await this.#waits.until(live, client, waitMs);
      // A client that left was never told the id: nobody can read the outcome.
      if (!live.isOver && client.signal.aborted) live.end("Canceled", "canceled");
      if (live.isOvertaken) throw this.#admission.overtaken();
      live.told();
    }
    await this.#keep(live);
    return live.record;
  }

  /** @throws SconceError `prediction_differs` */
  async #known(once: Once): Promise<PredictionRecord | undefined> {
    const record = this.#live.get(once.id)?.record ?? (await this.#options.store.get(once.id));
    if (record !== undefined) checkSame(record.digest, once);
    return record;
  }

  async #accept(request: NewPrediction): Promise<LivePrediction> {
    const { kind, body, bytes, charge, timeoutMs = Infinity, waitMs, client, origin, once } = request;
    const { bodies, limits, metrics, owner, onTrace } = this.#options;
    let live: LivePrediction;
    try {
      // A large body was long on its way, and reading it is work: there may be no room any more.
      if (typeof body !== "string") this.admit(request);
      const beganMs = performance.now();
      const decoding = bodies.decode(body, limits.maxInputs[kind]);
      const decoded = decoding instanceof Promise ? await decoding : decoding;
      metrics.took("decode", performance.now() - beganMs);
      const count = decoded.inputs.length;
      this.admit(request, count);
      live = this.#begin(
        {
          id: once?.id ?? newId(owner),
          kind,
          count,
          createdAtMs: Date.now(),
          timeoutMs: Math.min(timeoutMs, limits.timeoutMs),
          body: decoded.body,
          origin,
          digest: once?.digest,
        },
        {
          inputs: decoded.inputs,
          bytes,
          charge,
          isWaitedFor: waitMs > 0,
          sender: this.#options.flow.suspects.isWatching ? client.sender : undefined,
        },
      );
    } catch (error) {
      charge[Symbol.dispose]();
      throw error;
    }
    if (isLogged("trace")) onTrace?.(`${nounOf(kind)} ${live.id} was accepted with ${live.count} inputs`, live);
    return live;
  }

  /** One that has not ended, at once. */
  underWay(id: string): PredictionRecord | undefined {
    return this.#live.get(id)?.record;
  }

  async get(kind: Kind, id: string): Promise<PredictionRecord | undefined> {
    const record = this.#live.get(id)?.record ?? (await this.#options.store.get(id));
    if (record?.kind !== kind) return undefined;
    if (hasEnded(record)) this.#unread.read(id);
    return record;
  }

  async cancel(kind: Kind, id: string): Promise<PredictionRecord | undefined> {
    const live = this.#liveOf(kind, id);
    live?.end("Canceled", "canceled");
    this.#unread.read(id);
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
    if (live.isOver) this.#unread.read(id);
    return live.record;
  }

  async watch(kind: Kind, id: string, changed: () => void): Promise<Watched | undefined> {
    const live = this.#liveOf(kind, id);
    const record = live?.record ?? (await this.get(kind, id));
    if (record === undefined) return undefined;
    const stop = live?.watch(changed);
    return {
      record,
      get outputs() {
        return live?.outputs ?? [];
      },
      [Symbol.dispose]: () => {
        stop?.();
        if (live?.isOver) this.#unread.read(id);
      },
    };
  }

  /** Goes on with what earlier processes with these owners left behind; limits do not refuse what was accepted. */
  async resume(owners: (owner: string) => boolean): Promise<number> {
    let resumed = 0;
    for await (const left of this.#options.store.left(owners)) {
      await this.begin(left);
      resumed += 1;
    }
    return resumed;
  }

  /** Begins a kept request: accepted by an earlier process, or by another one. Resolves when its inputs are on their way; never throws. */
  async begin({ leftMs, deaths, isWaitedFor = false, ...request }: LeftRequest): Promise<void> {
    const { id, kind, body, count } = request;
    const bytes = typeof body === "string" ? Buffer.byteLength(body) : body.length;
    const charge = this.#options.memory.add("bodies", HELD_PER_BYTE * bytes);
    try {
      const { inputs } = await this.#options.bodies.decode(typeof body === "string" ? body : [body], count);
      const isHeldBack = deaths >= MAX_DEATHS;
      const live = this.#begin(request, { inputs, bytes, charge, leftMs, isHeldBack, isWaitedFor });
      if (isHeldBack) live.end(`The server ended ${deaths} times while this ran; it is not run again`, "engine");
    } catch (error) {
      // The model behind the store is another one now.
      const live = this.#begin(request, { inputs: noInputs, bytes, charge, leftMs, isHeldBack: true });
      live.end(`After a restart the inputs are no longer taken: ${codedError(error).message}`, "input");
      this.#options.onFault?.(`${nounOf(kind)} ${id}`, codedError(error), live);
    }
  }

  /** Lets go of one that another process has from now on: nobody is told how it ends here. */
  leave(id: string): void {
    const live = this.#live.get(id);
    if (live === undefined) return;
    live.isOvertaken = true;
    live.end("Canceled", "canceled");
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

  #begin(
    request: KeptRequest,
    work: {
      readonly inputs: InputList;
      readonly bytes: number;
      readonly charge: Charge;
      readonly leftMs?: number;
      readonly isHeldBack?: boolean;
      readonly isWaitedFor?: boolean;
      readonly sender?: Sender | undefined;
    },
  ): LivePrediction {
    const { inputs, bytes, charge, leftMs = request.timeoutMs, isHeldBack = false, isWaitedFor = false, sender } = work;
    const isKept = work.leftMs !== undefined;
    const live = new LivePrediction({
      request,
      bytes,
      charge,
      deadlineMs: performance.now() + leftMs,
      onEnd: (ended, record) => this.#ended(ended, record),
    });
    live.isKept = isKept;
    this.#admission.begun({ items: live.count, bytes });
    this.#live.set(live.id, live);
    this.#deadlines.add(live);
    if (isHeldBack) return live;
    if (live.kind === "demo") this.#runDemo(live, inputs);
    else this.#run(live, inputs, { isWaitedFor, client: sender });
    return live;
  }

  #run(
    live: LivePrediction,
    inputs: InputList,
    { isWaitedFor, client }: Pick<ItemWorkOptions, "isWaitedFor" | "client">,
  ): void {
    const { flow, pipeline, limits, memory, metrics, onFault } = this.#options;
    workOnItems(inputs, {
      live,
      flow,
      isWaitedFor,
      client,
      encode: (output) => pipeline.encode(output),
      onEncoded: (ms) => metrics.took("encode", ms),
      onBegun: () => this.#hasBegun(live),
      onRefused: (why) => {
        live.isOvertaken = why === "overload";
        this.#expire(live);
      },
      onFault: (index, error) => onFault?.(`prediction ${live.id}, input ${index}`, error, live),
      memory: new OutputMemory({ live, memory, maxResultBytes: limits.maxResultBytes }),
    });
  }

  #runDemo(live: LivePrediction, inputs: InputList): void {
    const { flow, pipeline, limits, memory: account, onFault } = this.#options;
    const { maxLogBytes, maxResultBytes } = limits;
    const onBegun = () => this.#hasBegun(live);
    const memory = new OutputMemory({ live, memory: account, maxResultBytes });
    workOnDemo(live, inputs, { flow, pipeline, onBegun, maxLogBytes, memory }).catch((error: unknown) => {
      if (live.isOver) return;
      const coded = codedError(error);
      onFault?.(`demo prediction ${live.id}`, coded, live);
      live.end(coded.message, reasonOf(coded.code));
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
      // Its client may come again with the same id.
      live.isOvertaken = request.digest !== undefined;
      live.end("Canceled", "store");
      throw error;
    }
    live.request = undefined;
    if (live.hasBegun && !live.isOver && !this.#isAbandoned) this.#options.store.begun(live.id);
  }

  #expire(live: LivePrediction): void {
    const error = new SconceError("timed_out", `Timed out after ${Math.round(live.timeoutMs / 10) / 100} s`);
    this.#options.onFault?.(`${nounOf(live.kind)} ${live.id}`, error, live);
    live.end(error.message, "timeout");
  }

  #ended(live: LivePrediction, record: EndedRecord): void {
    const { metrics, store, onTrace } = this.#options;
    if (isLogged("trace")) onTrace?.(`${nounOf(live.kind)} ${live.id} ended: ${record.outcome.status}`, live);
    this.#live.delete(live.id);
    if (live.isKept) this.#unread.ended(live.id);
    this.#deadlines.delete(live);
    this.#admission.ended({ items: live.count, bytes: live.bytes });
    if (this.#isDraining && this.#live.size === 0) this.#drained.resolve();
    // Its client is told that it was not accepted.
    if (live.isOvertaken) return;
    if (!(this.#isAbandoned && live.isKept)) store.finish(record);
    metrics.predictionEnded(live, (performance.now() - live.createdAtMs) / 1000);
  }
}

function nounOf(kind: Kind): string {
  return kind === "demo" ? "demo prediction" : "prediction";
}
