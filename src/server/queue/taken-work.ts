/** What this worker has of the queue, from being taken until the queue knows the end. */
import type { MemoryAccount } from "../memory/memory-account.ts";
import { byteLengthOf } from "../predictions/large-text.ts";
import type { EndedRecord, Kind, PredictionRecord } from "../predictions/record.ts";
import type { LeftRequest, PredictionStore } from "../predictions/store.ts";
import { LARGE_VALUE_BYTES } from "./large-values.ts";
import type { QueueDirectory } from "./queue-directory.ts";
import type { Progress, TakenRequest } from "./queue-messages.ts";
import { QueuedWebhooks } from "./queued-webhooks.ts";
import { type UntoldEnd, UntoldEnds } from "./untold-ends.ts";

/** One that has not ended after so long leaves room for those behind it; so many of them do not, that other workers find some. */
const LONG_MS = 500;
const LONG_SHARE = 0.1;

export interface HeldProgress extends Progress {
  readonly held: Held;
}

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
  /** How it ended. */
  ended: EndedRecord | undefined;
  /** Called when the queue was told its end. */
  readonly onTold: (() => void)[];
  /** What the queue was told so far. */
  told: Pick<PredictionRecord, "startedAtMs" | "itemsDone"> & { logLength: number; logBytes: number };
}

export class TakenWork implements PredictionStore {
  readonly retained = { count: 0, bytes: 0 };
  readonly webhooks: QueuedWebhooks;
  readonly #queues: QueueDirectory;
  readonly #memory: MemoryAccount;
  readonly #held = new Map<string, Held>();
  readonly #smallEnds: UntoldEnds;
  /** Each takes as long as many small ones, which do not wait for it. */
  readonly #largeEnds: UntoldEnds;
  #share = 0;
  /** Called when there is room for more, or nothing is left. */
  onRoom: () => void = () => {};

  constructor(queues: QueueDirectory, memory: MemoryAccount) {
    this.#queues = queues;
    this.webhooks = new QueuedWebhooks(() => queues.all);
    this.#memory = memory;
    const ofEnds = {
      tell: (ends: readonly UntoldEnd[]) => queues.own.finish(ends.filter((end) => this.#endedOf(end) !== undefined)),
      onGone: (end: UntoldEnd) => this.#gone(end),
      onEmpty: () => this.onRoom(),
    };
    this.#smallEnds = new UntoldEnds(ofEnds);
    this.#largeEnds = new UntoldEnds(ofEnds);
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
    return [...this.#held.values()].filter(({ ended }) => ended === undefined);
  }

  has(id: string): boolean {
    return this.#held.has(id);
  }

  take({ id, kind, leftMs, hasLargeBody }: TakenRequest, share: number): Held {
    const takenMs = performance.now();
    const before = this.#held.get(id);
    // Its client sent it again, as the queue has lost the one that ended here.
    if (before !== undefined) this.#forget(before);
    this.#share += share;
    const held: Held = {
      id,
      kind,
      share,
      takenMs,
      isLong: false,
      deadlineMs: takenMs + leftMs,
      hasLargeBody,
      hasBegun: false,
      ended: undefined,
      onTold: [],
      told: { startedAtMs: undefined, itemsDone: 0, logLength: 0, logBytes: 0 },
    };
    this.#held.set(id, held);
    return held;
  }

  /** Whether this one is still to be run here: it may have been lost, and even taken again. */
  isHeld(held: Held): boolean {
    return this.#held.get(held.id) === held && held.ended === undefined;
  }

  /** Others have it from now on. @returns false for one that has ended: its outcome is told all the same */
  drop(id: string): boolean {
    const held = this.#held.get(id);
    if (held === undefined || held.ended !== undefined) return false;
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

  /** What has changed since the queue was told last. */
  progress(recordOf: (id: string) => PredictionRecord | undefined): HeldProgress[] {
    return this.unfinished.flatMap((held) => {
      const { id, told } = held;
      const record = recordOf(id);
      if (record === undefined) return [];
      const { startedAtMs, itemsDone, logs } = record;
      const { logLength, logBytes } = told;
      if (told.startedAtMs === startedAtMs && told.itemsDone === itemsDone && logLength === logs.length) return [];
      return [{ held, id, startedAtMs, itemsDone, logBytes, logs: logs.slice(logLength) }];
    });
  }

  /** The queue knows this; of what it may not know nothing is left out when it is told next. */
  told(progress: readonly HeldProgress[]): void {
    for (const { held, startedAtMs, itemsDone, logBytes, logs } of progress) {
      const logLength = held.told.logLength + logs.length;
      held.told = { startedAtMs, itemsDone, logLength, logBytes: logBytes + Buffer.byteLength(logs) };
    }
  }

  begun(id: string): void {
    const held = this.#held.get(id);
    if (held !== undefined) held.hasBegun = true;
  }

  finish(record: EndedRecord): void {
    const held = this.#held.get(record.id);
    if (held === undefined || held.ended !== undefined) return;
    held.ended = record;
    const bytes = byteLengthOf(record.outcome.members) + record.logs.length;
    const charge = this.#memory.add("outputs", bytes);
    const { deadlineMs, hasLargeBody } = held;
    const ends = bytes > LARGE_VALUE_BYTES ? this.#largeEnds : this.#smallEnds;
    ends.add({ record, bytes, hasLargeBody, charge, deadlineMs });
    this.#free(held);
  }

  /** Resolves when the queue knows of every end. */
  async flush(): Promise<void> {
    await Promise.all([this.#smallEnds.flush(), this.#largeEnds.flush()]);
  }

  create(): Promise<void> {
    return Promise.resolve();
  }

  interrupted(): void {}

  /** As the queue has it: of what has ended here once it was told that. */
  async get(id: string): Promise<PredictionRecord | undefined> {
    await this.written(id);
    return this.#queues.read(id);
  }

  async written(id: string): Promise<void> {
    const held = this.#held.get(id);
    if (held?.ended !== undefined) await new Promise<void>((resolve) => held.onTold.push(resolve));
  }

  async *left(): AsyncGenerator<LeftRequest> {}

  close(): Promise<void> {
    return Promise.resolve();
  }

  #free(held: Held): void {
    this.#share -= held.share;
    this.onRoom();
  }

  /** The one that ended so; undefined where another has its id by now. */
  #endedOf({ record }: UntoldEnd): Held | undefined {
    const held = this.#held.get(record.id);
    return held?.ended === record ? held : undefined;
  }

  #gone(end: UntoldEnd): void {
    const held = this.#endedOf(end);
    if (held !== undefined) this.#forget(held);
    end.charge[Symbol.dispose]();
  }

  #forget({ id, onTold }: Held): void {
    this.#held.delete(id);
    for (const resolve of onTold) resolve();
  }
}
