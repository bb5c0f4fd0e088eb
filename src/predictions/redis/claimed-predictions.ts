/** The predictions that this replica has claimed from the queue. A prediction stays claimed until Redis has acknowledged its outcome. */
import type { Charge } from "../../pipeline/memory/charge.ts";
import type { MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import { byteLengthOf } from "../large-text.ts";
import type { EndedRecord, Kind, PredictionRecord } from "../record.ts";
import type { PredictionStore, UnfinishedRequest } from "../store.ts";
import { EventReports } from "./event-reports.ts";
import type { QueueDirectory } from "./queue-directory.ts";
import type { ClaimedRequest, Progress, QueuedOutcome } from "./queue-messages.ts";
import { QueuedWebhooks } from "./queued-webhooks.ts";
import { LARGE_VALUE_BYTES } from "./redis-link.ts";
import { type RetryEntry, RetryQueue } from "./retry-queue.ts";

/**
 * A prediction that was claimed this many milliseconds ago counts only a tenth against the replica's capacity, so that short predictions run beside
 * it.
 */
const LONG_MS = 500;
const LONG_SHARE = 0.1;
/**
 * Milliseconds after a prediction's time limit at which an outcome that Redis has not accepted is dropped. Another replica has ended the prediction
 * by then.
 */
const EXPIRY_MS = 60_000;

export interface ClaimProgress extends Progress {
  readonly claim: Claim;
}

export interface Claim {
  readonly id: string;
  readonly kind: Kind;
  /** Capacity of this replica that the prediction uses, in inputs. */
  share: number;
  readonly claimedMs: number;
  isLong: boolean;
  /** Time limit, in milliseconds of `performance.now()`. */
  readonly deadlineMs: number;
  /** Whether the author's code has begun to run for the prediction. */
  hasBegun: boolean;
  ended: EndedRecord | undefined;
  /** Called when Redis has acknowledged the outcome, or the outcome was dropped. */
  readonly onAcknowledged: (() => void)[];
  reported: Pick<PredictionRecord, "startedAtMs" | "itemsDone"> & { logLength: number; logBytes: number };
}

interface UnacknowledgedOutcome extends QueuedOutcome, RetryEntry {
  readonly charge: Charge;
}

export class ClaimedPredictions implements PredictionStore {
  readonly retained = { count: 0, bytes: 0 };
  readonly webhooks: QueuedWebhooks;
  readonly events: EventReports;
  readonly #queues: QueueDirectory;
  readonly #memory: MemoryAccount;
  readonly #claims = new Map<string, Claim>();
  readonly #smallOutcomes: RetryQueue<UnacknowledgedOutcome>;
  /** Separate queue, because sending one large outcome takes as long as many small ones. */
  readonly #largeOutcomes: RetryQueue<UnacknowledgedOutcome>;
  #share = 0;
  /** Called when capacity becomes free, and when Redis has acknowledged the last outcome. */
  onCapacity: () => void = () => {};

  constructor(queues: QueueDirectory, memory: MemoryAccount) {
    this.#queues = queues;
    this.webhooks = new QueuedWebhooks(queues.own);
    this.events = new EventReports(queues.own.events);
    this.#memory = memory;
    const options = {
      send: async (outcomes: readonly UnacknowledgedOutcome[]) => {
        await this.events.flush(outcomes.map(({ record }) => record.id));
        // Leaves out an outcome whose claim was replaced, because it belongs to an older prediction with this id.
        await queues.own.finish(outcomes.filter((outcome) => this.#claimOf(outcome) !== undefined));
      },
      onSettled: (outcome: UnacknowledgedOutcome) => this.#settled(outcome),
      onEmpty: () => this.onCapacity(),
    };
    this.#smallOutcomes = new RetryQueue(options);
    this.#largeOutcomes = new RetryQueue(options);
  }

  get share(): number {
    return this.#share;
  }

  /** Ids of all claimed predictions, with ended ones whose outcome Redis has not acknowledged. */
  get ids(): string[] {
    return [...this.#claims.keys()];
  }

  get unfinished(): Claim[] {
    return [...this.#claims.values()].filter(({ ended }) => ended === undefined);
  }

  has(id: string): boolean {
    return this.#claims.has(id);
  }

  add({ id, kind, leftMs }: ClaimedRequest, share: number): Claim {
    const claimedMs = performance.now();
    const before = this.#claims.get(id);
    // Redis lost the earlier prediction with this id, and its client sent it again.
    if (before !== undefined) this.#release(before);
    this.#share += share;
    const claim: Claim = {
      id,
      kind,
      share,
      claimedMs,
      isLong: false,
      deadlineMs: claimedMs + leftMs,
      hasBegun: false,
      ended: undefined,
      onAcknowledged: [],
      reported: { startedAtMs: undefined, itemsDone: 0, logLength: 0, logBytes: 0 },
    };
    this.#claims.set(id, claim);
    return claim;
  }

  /** Whether this replica must still run the prediction. */
  isUnfinished(claim: Claim): boolean {
    return this.#claims.get(claim.id) === claim && claim.ended === undefined;
  }

  /**
   * Removes the claim of an unfinished prediction, which another replica then runs. @returns false without a claim, or if the prediction has ended
   * here: Redis must still get its outcome
   */
  drop(id: string): boolean {
    const claim = this.#claims.get(id);
    if (claim === undefined || claim.ended !== undefined) return false;
    this.#claims.delete(id);
    this.events.remove(id);
    this.#freeShare(claim);
    return true;
  }

  /** Lets long predictions use less capacity. Called at intervals. */
  updateShares(): void {
    const untilMs = performance.now() - LONG_MS;
    const long = this.unfinished.filter(({ isLong, claimedMs }) => !isLong && claimedMs < untilMs);
    for (const claim of long) {
      const share = LONG_SHARE * claim.share;
      this.#share += share - claim.share;
      Object.assign(claim, { share, isLong: true });
    }
    if (long.length > 0) this.onCapacity();
  }

  /** Progress of unfinished predictions that Redis does not have yet. */
  progress(recordOf: (id: string) => PredictionRecord | undefined): ClaimProgress[] {
    return this.unfinished.flatMap((claim) => {
      const { id, reported } = claim;
      const record = recordOf(id);
      if (record === undefined) return [];
      const { startedAtMs, itemsDone, logs } = record;
      const { logLength, logBytes } = reported;
      if (reported.startedAtMs === startedAtMs && reported.itemsDone === itemsDone && logLength === logs.length)
        return [];
      return [{ claim, id, startedAtMs, itemsDone, logBytes, logs: logs.slice(logLength) }];
    });
  }

  /** Records progress that Redis has acknowledged. Other progress is reported again. */
  progressReported(progress: readonly ClaimProgress[]): void {
    for (const { claim, startedAtMs, itemsDone, logBytes, logs } of progress) {
      const logLength = claim.reported.logLength + logs.length;
      claim.reported = { startedAtMs, itemsDone, logLength, logBytes: logBytes + Buffer.byteLength(logs) };
    }
  }

  begun(id: string): void {
    const claim = this.#claims.get(id);
    if (claim !== undefined) claim.hasBegun = true;
  }

  finish(record: EndedRecord): void {
    const claim = this.#claims.get(record.id);
    if (claim === undefined || claim.ended !== undefined) return;
    claim.ended = record;
    const bytes = byteLengthOf(record.outcome.members) + record.logs.length;
    const charge = this.#memory.add("outputs", bytes);
    const outcomes = bytes > LARGE_VALUE_BYTES ? this.#largeOutcomes : this.#smallOutcomes;
    outcomes.add({ record, bytes, charge, expiresMs: claim.deadlineMs + EXPIRY_MS });
    this.#freeShare(claim);
  }

  /** Resolves when Redis has acknowledged all outcomes, except dropped ones. */
  async flush(): Promise<void> {
    await Promise.all([this.#smallOutcomes.flush(), this.#largeOutcomes.flush()]);
  }

  create(): Promise<void> {
    return Promise.resolve();
  }

  interrupted(): void {}

  /** Reads a prediction from the queue. If it has ended on this replica, Redis must acknowledge the outcome first. */
  async get(id: string): Promise<PredictionRecord | undefined> {
    await this.written(id);
    return this.#queues.read(id);
  }

  async written(id: string): Promise<void> {
    const claim = this.#claims.get(id);
    if (claim?.ended !== undefined) await new Promise<void>((resolve) => claim.onAcknowledged.push(resolve));
  }

  async *takeOver(): AsyncGenerator<UnfinishedRequest> {}

  close(): Promise<void> {
    return Promise.resolve();
  }

  #freeShare(claim: Claim): void {
    this.#share -= claim.share;
    this.onCapacity();
  }

  #claimOf({ record }: UnacknowledgedOutcome): Claim | undefined {
    const claim = this.#claims.get(record.id);
    return claim?.ended === record ? claim : undefined;
  }

  #settled(outcome: UnacknowledgedOutcome): void {
    const claim = this.#claimOf(outcome);
    if (claim !== undefined) this.#release(claim);
    outcome.charge[Symbol.dispose]();
  }

  #release({ id, onAcknowledged }: Claim): void {
    this.#claims.delete(id);
    this.events.remove(id);
    for (const resolve of onAcknowledged) resolve();
  }
}
