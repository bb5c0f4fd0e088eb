/** What requests make of predictions in this process: create, read, wait for and cancel them, and go on with what was left. Knows no HTTP. */
import { codedError, SconceError } from "../../base/errors.ts";
import { isLogged, log } from "../../base/log.ts";
import { type Bodies, type DecodedBody, HELD_PER_BYTE } from "../inputs/bodies.ts";
import { noInputs } from "../inputs/input-list.ts";
import { admitWebhook } from "../webhooks/webhooks.ts";
import type { Unfinished } from "./admission.ts";
import { newId } from "./ids.ts";
import { LargeText } from "./large-text.ts";
import type { LivePrediction } from "./live.ts";
import { LivePredictions, type LivePredictionsOptions, nounOf } from "./live-predictions.ts";
import { Creations } from "./once.ts";
import type { AskedPrediction, Client, NewPrediction, Predictions, Watched } from "./predictions.ts";
import { hasEnded, type Kind, type PredictionRecord } from "./record.ts";
import type { LeftRequest } from "./store.ts";
import { Waits } from "./waits.ts";

export interface ServiceOptions extends LivePredictionsOptions {
  readonly bodies: Bodies;
  /** Begins the ids that this process gives out: a process of the same server tells by it whose they are. */
  readonly owner: string;
  /** The hook that ended the last process is known: that input fails by itself, and no prediction is suspected. */
  readonly isCauseKnown?: boolean;
}

/** A request that was running at this many deaths of its process may well be their cause. */
const MAX_DEATHS = 2;

export class PredictionService implements Predictions {
  readonly #options: ServiceOptions;
  readonly #live: LivePredictions;
  readonly #waits = new Waits();
  readonly #creations: Creations;

  constructor(options: ServiceOptions) {
    this.#options = options;
    this.#live = new LivePredictions(options);
    this.#creations = new Creations(async (id) => {
      const record = this.underWay(id) ?? (await options.store.get(id));
      return record && { record, digest: record.digest };
    });
  }

  /** Predictions that have not ended, and what they hold. */
  get unfinished(): Readonly<Unfinished & { predictions: number }> {
    return this.#live.unfinished;
  }

  /** For how long the oldest prediction has waited that has an input to be run, in milliseconds. */
  get oldestWaitMs(): number {
    return this.#live.oldestWaitMs;
  }

  admit(asked: AskedPrediction, items = 1): void {
    if (this.#live.isDraining) {
      throw new SconceError("not_ready", "the server is stopping and takes no new predictions", { refusal: "drain" });
    }
    const { bytes, timeoutMs = Infinity, waitMs, webhook } = asked;
    if (webhook !== undefined) admitWebhook(this.#options.webhooks, webhook);
    const timeLimitMs = Math.min(timeoutMs, this.#options.limits.timeoutMs);
    this.#live.admission.check({ items, bytes, waitMs, timeLimitMs });
  }

  async create(request: NewPrediction): Promise<PredictionRecord> {
    const { once, kind, waitMs, client } = request;
    if (once !== undefined) {
      const record = await this.#creations.run(once, request.charge, async () => {
        this.#options.webhooks?.giveUp(once.id);
        // It is kept from the start: a client that waits for it is as one that will come back.
        const live = await this.#accept({ ...request, waitMs: 0 });
        await this.#live.keep(live);
        return live.record;
      });
      return (await this.wait(kind, once.id, { waitMs, client })) ?? record;
    }
    const accepted = this.#accept(request);
    const live = accepted instanceof Promise ? await accepted : accepted;
    // Whoever else is told of it is told for certain.
    if (request.webhook !== undefined) await this.#live.keep(live);
    if (waitMs > 0) {
      await this.#waits.until(live, client, waitMs);
      // A client that left was never told the id: nobody can read the outcome, unless somebody is told of it.
      if (request.webhook === undefined && !live.isOver && client.signal.aborted) live.end("Canceled", "canceled");
      if (live.isOvertaken) throw this.#live.admission.overtaken();
      live.told();
      // Sent in pieces: with the first of them its client has the id, should this process end before the last.
      if (live.record.outcome?.members instanceof LargeText) await this.#options.store.flush();
    }
    // Not of one that has ended, as most have that were waited for.
    if (live.isToBeKept) await this.#live.keep(live);
    if (live.isKept) await this.#written(live);
    return live.record;
  }

  /** One that has not ended, at once. */
  underWay(id: string): PredictionRecord | undefined {
    return this.#live.get(id)?.record;
  }

  async get(kind: Kind, id: string): Promise<PredictionRecord | undefined> {
    const record = this.#live.get(id)?.record ?? (await this.#options.store.get(id));
    if (record?.kind !== kind) return undefined;
    if (hasEnded(record)) this.#live.unread.read(id);
    return record;
  }

  async cancel(kind: Kind, id: string): Promise<PredictionRecord | undefined> {
    const live = this.#liveOf(kind, id);
    live?.end("Canceled", "canceled");
    this.#live.unread.read(id);
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
    if (live.isOver) this.#live.unread.read(id);
    await this.#written(live);
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
      written: () => this.#written(live),
      [Symbol.dispose]: () => {
        stop?.();
        if (live?.isOver) this.#live.unread.read(id);
      },
    };
  }

  /** Resolves when the end of one that has one, and whose id was told, can be told as well. */
  async #written(live: LivePrediction | undefined): Promise<void> {
    if (live?.isOver && live.isKept) await this.#options.store.written(live.id);
  }

  /**
   * Goes on with the predictions that earlier processes with these owners left. Limits refuse none of them. On a full disk this resolves early,
   * and the other predictions begin when there is room.
   */
  resume(owners: (owner: string) => boolean): Promise<number> {
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
      for await (const left of this.#options.store.left(owners, onFull)) {
        await this.begin(left);
        resumed += 1;
      }
      if (isFull) log.info("The disk of the predictions has room again");
      await this.#options.webhooks?.resume(owners, (id) => this.#live.get(id));
      resolve(resumed);
    };
    run().catch((error) => (isFull ? log.error(error) : reject(error)));
    return promise;
  }

  /** Begins a kept request: accepted by an earlier process, or by another one. Resolves when its inputs are on their way; never throws. */
  async begin({ leftMs, deaths, isWaitedFor = false, ...request }: LeftRequest): Promise<void> {
    const { id, kind, body, count } = request;
    const bytes = typeof body === "string" ? Buffer.byteLength(body) : body.length;
    const charge = this.#options.memory.add("bodies", HELD_PER_BYTE * bytes);
    try {
      const { inputs } = await this.#options.bodies.decode(typeof body === "string" ? body : [body], count);
      const isHeldBack = deaths >= MAX_DEATHS && !this.#options.isCauseKnown;
      const live = this.#live.begin(request, { inputs, bytes, charge, leftMs, isHeldBack, isWaitedFor });
      if (isHeldBack) live.end(`The server ended ${deaths} times while this ran; it is not run again`, "engine");
    } catch (error) {
      // The model behind the store is another one now.
      const live = this.#live.begin(request, { inputs: noInputs, bytes, charge, leftMs, isHeldBack: true });
      live.end(`After a restart the inputs are no longer taken: ${codedError(error).message}`, "input");
      this.#options.onFault?.(`${nounOf(kind)} ${id}`, codedError(error), live);
    }
  }

  /** Lets go of one that another process has from now on: nobody is told how it ends here. */
  leave(id: string): void {
    this.#live.leave(id);
  }

  /** Takes nothing new and resolves when all that was accepted has ended. */
  drain(): Promise<void> {
    return this.#live.drain();
  }

  /** Resolves when every outcome of late was read, or after about `maxMs`. */
  allRead(maxMs: number): Promise<void> {
    return this.#live.unread.all(maxMs);
  }

  /** What has not ended from now on is left to the store as a request, for the next process to go on with. */
  abandon(): void {
    this.#live.abandon();
  }

  /** Answers at once, without a promise, where the body is small. */
  #accept(request: NewPrediction): LivePrediction | Promise<LivePrediction> {
    const { body, kind, charge } = request;
    try {
      // A large body was long on its way, and reading it is work: there may be no room any more.
      if (typeof body !== "string") this.admit(request);
      const beganMs = performance.now();
      const decoding = this.#options.bodies.decode(body, this.#options.limits.maxInputs[kind]);
      if (!(decoding instanceof Promise)) return this.#begin(request, decoding, beganMs);
      return decoding
        .then((decoded) => this.#begin(request, decoded, beganMs))
        .catch((error: unknown) => {
          charge[Symbol.dispose]();
          throw error;
        });
    } catch (error) {
      charge[Symbol.dispose]();
      throw error;
    }
  }

  /** @param beganMs when decoding did */
  #begin(request: NewPrediction, { inputs, body }: DecodedBody, beganMs: number): LivePrediction {
    const { kind, bytes, charge, timeoutMs = Infinity, waitMs, client, origin, once, webhook } = request;
    const { limits, metrics, owner, flow, onTrace } = this.#options;
    metrics.took("decode", performance.now() - beganMs);
    const count = inputs.length;
    this.admit(request, count);
    const live = this.#live.begin(
      {
        id: once?.id ?? newId(owner),
        kind,
        count,
        createdAtMs: Date.now(),
        timeoutMs: Math.min(timeoutMs, limits.timeoutMs),
        body,
        origin,
        digest: once?.digest,
        webhook,
      },
      {
        inputs,
        bytes,
        charge,
        isWaitedFor: waitMs > 0,
        sender: flow.suspects.isWatching ? client.sender : undefined,
      },
    );
    if (isLogged("trace")) onTrace?.(`${nounOf(kind)} ${live.id} was accepted with ${live.count} inputs`, live);
    return live;
  }

  #liveOf(kind: Kind, id: string): LivePrediction | undefined {
    const live = this.#live.get(id);
    return live?.kind === kind ? live : undefined;
  }
}
