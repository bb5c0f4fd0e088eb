/** What this worker has of the queue, from being taken until the queue knows the end. */
import type { Charge } from "../memory/charge.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import { byteLengthOf } from "../predictions/large-text.ts";
import type { EndedRecord, Kind, PredictionRecord } from "../predictions/record.ts";
import type { LeftRequest, PredictionStore } from "../predictions/store.ts";
import { LARGE_VALUE_BYTES } from "./large-values.ts";
import type { Queue } from "./queue.ts";
import type { QueueDirectory } from "./queue-directory.ts";
import type { End, Progress } from "./queue-messages.ts";
import { QueuedWebhooks } from "./queued-webhooks.ts";

/** Of one call, which holds up everybody else's. */
const MAX_ENDS = 64;
const MAX_BYTES = 2 ** 20;
/** Before ends that could not be told are told again. */
const RETRY_MS = 200;
/** An end that nobody hears for so long after its time is one that others have given up. */
const LATE_MS = 60_000;

/** One that has not ended after so long leaves room for those behind it; so many of them do not, that other workers find some. */
const LONG_MS = 500;
const LONG_SHARE = 0.1;

/** One that this worker has. */
export interface Held {
  readonly id: string;
  readonly kind: Kind;
  /** Of the room for inputs. */
  share: number;
  readonly takenMs: number;
  isLong: boolean;
  /** In `performance.now()` milliseconds. */
  readonly deadlineMs: number;
  readonly hasLargeBody: boolean;
  /** The model's code was called for it. */
  hasBegun: boolean;
  isOver: boolean;
  /** Called when the queue was told its end. */
  readonly onTold: (() => void)[];
  /** What the queue was told so far. */
  told: Pick<PredictionRecord, "startedAtMs" | "itemsDone"> & { logLength: number; logBytes: number };
}

interface Untold extends End {
  readonly charge: Charge;
  readonly deadlineMs: number;
}

export class TakenWork implements PredictionStore {
  readonly retained = { count: 0, bytes: 0 };
  readonly webhooks: QueuedWebhooks;
  readonly #queue: Queue;
  readonly #queues: QueueDirectory;
  readonly #memory: MemoryAccount;
  readonly #held = new Map<string, Held>();
  #untold: Untold[] = [];
  #isTelling = false;
  #share = 0;
  #flushed: (() => void)[] = [];
  /** Called when there is room for more, or nothing is left. */
  onRoom: () => void = () => {};

  constructor(queues: QueueDirectory, memory: MemoryAccount) {
    this.#queue = queues.own;
    this.#queues = queues;
    this.webhooks = new QueuedWebhooks(() => queues.all);
    this.#memory = memory;
  }

  /** Room that is taken by what has not ended. */
  get share(): number {
    return this.#share;
  }

  /** All that others must not run, ended or not. */
  get ids(): string[] {
    return [...this.#held.keys()];
  }

  get unfinished(): Held[] {
    return [...this.#held.values()].filter(({ isOver }) => !isOver);
  }

  has(id: string): boolean {
    return this.#held.has(id);
  }

  take({ id, kind, leftMs, body }: LeftRequest, share: number): void {
    const takenMs = performance.now();
    this.#share += share;
    this.#held.set(id, {
      id,
      kind,
      share,
      takenMs,
      isLong: false,
      deadlineMs: takenMs + leftMs,
      hasLargeBody: body.length > LARGE_VALUE_BYTES,
      hasBegun: false,
      isOver: false,
      onTold: [],
      told: { startedAtMs: undefined, itemsDone: 0, logLength: 0, logBytes: 0 },
    });
  }

  /** Others have it from now on. @returns false for one that has ended: its outcome is told all the same */
  drop(id: string): boolean {
    const held = this.#held.get(id);
    if (held === undefined || held.isOver) return false;
    this.#held.delete(id);
    this.#free(held);
    return true;
  }

  /** To be called from time to time. */
  makeRoom(): void {
    const untilMs = performance.now() - LONG_MS;
    const long = this.unfinished.filter(({ isLong, takenMs }) => !isLong && takenMs < untilMs);
    for (const held of long) {
      const share = LONG_SHARE * held.share;
      this.#share += share - held.share;
      Object.assign(held, { share, isLong: true });
    }
    if (long.length > 0) this.onRoom();
  }

  /** What has changed since this was asked last. */
  progress(recordOf: (id: string) => PredictionRecord | undefined): Progress[] {
    return this.unfinished.flatMap(({ id, told }) => {
      const record = recordOf(id);
      if (record === undefined) return [];
      const { startedAtMs, itemsDone, logs } = record;
      const { logLength, logBytes } = told;
      if (told.startedAtMs === startedAtMs && told.itemsDone === itemsDone && logLength === logs.length) return [];
      const more = logs.slice(logLength);
      Object.assign(told, {
        startedAtMs,
        itemsDone,
        logLength: logs.length,
        logBytes: logBytes + Buffer.byteLength(more),
      });
      return [{ id, startedAtMs, itemsDone, logBytes, logs: more }];
    });
  }

  begun(id: string): void {
    const held = this.#held.get(id);
    if (held !== undefined) held.hasBegun = true;
  }

  finish(record: EndedRecord): void {
    const held = this.#held.get(record.id);
    if (held === undefined || held.isOver) return;
    held.isOver = true;
    const bytes = byteLengthOf(record.outcome.members);
    const charge = this.#memory.add("outputs", bytes + record.logs.length);
    const { deadlineMs, hasLargeBody } = held;
    this.#untold.push({ record, bytes, hasLargeBody, charge, deadlineMs });
    this.#free(held);
    if (this.#isTelling) return;
    this.#isTelling = true;
    setImmediate(() => void this.#tell());
  }

  /** Resolves when the queue knows of every end. */
  flush(): Promise<void> {
    if (this.#untold.length === 0) return Promise.resolve();
    return new Promise((resolve) => this.#flushed.push(resolve));
  }

  create(): Promise<void> {
    return Promise.resolve();
  }

  interrupted(): void {}

  /** As the queue has it: of what has ended here once it was told that. */
  async get(id: string): Promise<PredictionRecord | undefined> {
    const held = this.#held.get(id);
    if (held?.isOver) await new Promise<void>((resolve) => held.onTold.push(resolve));
    return this.#queues.read(id);
  }

  async *left(): AsyncGenerator<LeftRequest> {}

  close(): Promise<void> {
    return Promise.resolve();
  }

  #free(held: Held): void {
    this.#share -= held.share;
    this.onRoom();
  }

  /** One call at a time: what ends meanwhile goes with the next. */
  async #tell(): Promise<void> {
    while (this.#untold.length > 0) {
      const batch = this.#nextEnds();
      try {
        await this.#queue.finish(batch);
        this.#forget(batch.length);
      } catch {
        // What came first is no longer waited for first.
        const isLate = performance.now() > (this.#untold[0]?.deadlineMs ?? 0) + LATE_MS;
        if (isLate) this.#forget(1);
        else await Bun.sleep(RETRY_MS);
      }
    }
    this.#isTelling = false;
    for (const resolve of this.#flushed.splice(0)) resolve();
    this.onRoom();
  }

  #nextEnds(): Untold[] {
    let bytes = 0;
    const end = this.#untold.findIndex((untold, i) => {
      bytes += untold.bytes;
      return i > 0 && (i === MAX_ENDS || bytes > MAX_BYTES);
    });
    return end < 0 ? [...this.#untold] : this.#untold.slice(0, end);
  }

  #forget(count: number): void {
    for (const { record, charge } of this.#untold.splice(0, count)) {
      const held = this.#held.get(record.id);
      this.#held.delete(record.id);
      for (const resolve of held?.onTold ?? []) resolve();
      charge[Symbol.dispose]();
    }
  }
}
