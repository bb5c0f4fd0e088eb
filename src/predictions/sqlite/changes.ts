/** Changes of stored predictions that wait to be written to the database: one for each prediction, with its last state. */
import type { EndedRecord } from "../record.ts";
import type { PredictionRequest } from "../request.ts";
import { isOverLimits, type RetentionLimits } from "../retention.ts";

/** A request to write. */
export interface Creation {
  readonly request: PredictionRequest;
  readonly body: string | Uint8Array<ArrayBuffer>;
  /** Name of the file with the body, if the body is large. */
  readonly file: string | undefined;
  /** When the store got the request, in milliseconds of `performance.now()`. */
  readonly atMs: number;
}

/** An outcome to write. */
export interface End {
  readonly record: EndedRecord;
  /** Bytes that count against the limits of retention. */
  readonly bytes: number;
  /** When the prediction ended, in milliseconds of `performance.now()`. */
  readonly atMs: number;
  /** Name of the file with the outcome, if the outcome is large. */
  readonly file?: string;
}

export interface Change {
  readonly id: string;
  creation: Creation | undefined;
  /** Start in milliseconds since 1970; null for a request that stops because the process exits; undefined without a change. */
  begunAtMs: number | null | undefined;
  /** The outcome, which replaces the request. */
  end: End | undefined;
  /** Whether the request is removed without an outcome, because retention has evicted the outcome before it was written. */
  isDropped: boolean;
  /** The webhook to add; null to remove it. */
  webhook: string | null | undefined;
  /** Callers that wait for the write of the request or the webhook. */
  waiting: PromiseWithResolvers<void>[];
}

/** Maximum changes in a transaction, and maximum bytes of their bodies and outcomes. More would delay the requests among them. */
const MAX_CHANGES = 2000;
const MAX_BYTES = 8 * 2 ** 20;

export class Changes {
  readonly #limits: RetentionLimits;
  #changes = new Map<string, Change>();

  constructor(limits: RetentionLimits) {
    this.#limits = limits;
  }

  get isEmpty(): boolean {
    return this.#changes.size === 0;
  }

  create(creation: Creation, waiting: PromiseWithResolvers<void>): void {
    const change = this.#of(creation.request.id);
    change.waiting.push(waiting);
    if (change.end !== undefined) return;
    change.creation = creation;
    // The client has sent the request again after retention has evicted its outcome.
    change.isDropped = false;
  }

  begun(id: string, atMs: number | undefined): void {
    const change = this.#of(id);
    if (change.end === undefined && !change.isDropped) change.begunAtMs = atMs ?? null;
  }

  /** Adds an outcome; the first one stays. */
  end(end: End): void {
    const change = this.#of(end.record.id);
    if (change.end !== undefined || change.isDropped) return;
    change.end = end;
    change.creation = undefined;
    change.begunAtMs = undefined;
  }

  webhook(id: string, webhook: string | null, waiting?: PromiseWithResolvers<void>): void {
    const change = this.#of(id);
    change.webhook = webhook;
    if (waiting !== undefined) change.waiting.push(waiting);
  }

  /** Removes and returns the next changes. @param isWaited whether to take only changes that callers wait for */
  take(isWaited = false): Change[] {
    const taken: Change[] = [];
    let bytes = 0;
    for (const change of this.#changes.values()) {
      if (taken.length >= MAX_CHANGES || bytes >= MAX_BYTES) break;
      if (isWaited && change.waiting.length === 0) continue;
      this.#changes.delete(change.id);
      taken.push(change);
      bytes += bytesOf(change);
    }
    // Replaces the empty Map, which would keep the memory of former entries. (OpenMap has no order.)
    if (this.#changes.size === 0) this.#changes = new Map();
    return taken;
  }

  /** Queues changes again whose write has failed, without requests, added webhooks, and outcomes beyond the limits of retention. */
  putBack(failed: readonly Change[]): void {
    const later = this.#changes;
    this.#changes = new Map();
    for (const { id, creation, begunAtMs, end, isDropped, webhook } of failed) {
      const change = later.get(id) ?? unchanged(id);
      later.delete(id);
      if (end !== undefined) Object.assign(change, { end, creation: undefined, begunAtMs: undefined });
      else if (creation === undefined && change.begunAtMs === undefined) change.begunAtMs = begunAtMs;
      change.isDropped ||= isDropped && change.creation === undefined;
      if (webhook === null && change.webhook === undefined) change.webhook = null;
      if (hasAny(change)) this.#changes.set(id, change);
    }
    for (const change of later.values()) this.#changes.set(change.id, change);
    this.#dropEvicted();
  }

  find(id: string): EndedRecord | undefined {
    return this.#changes.get(id)?.end?.record;
  }

  /** Outcomes that wait, oldest first. */
  *ends(): Generator<End> {
    for (const { end } of this.#changes.values()) if (end !== undefined) yield end;
  }

  #of(id: string): Change {
    let change = this.#changes.get(id);
    if (change === undefined) {
      change = unchanged(id);
      this.#changes.set(id, change);
    }
    return change;
  }

  /** Drops outcomes that the database would evict right after their write. */
  #dropEvicted(): void {
    const nowMs = performance.now();
    let [count, bytes] = [0, 0];
    for (const end of this.ends()) {
      count += 1;
      bytes += end.bytes;
    }
    for (const change of this.#changes.values()) {
      const { end } = change;
      if (end === undefined || !isOverLimits(this.#limits, { count, bytes, ageMs: nowMs - end.atMs })) continue;
      change.end = undefined;
      change.isDropped = true;
      count -= 1;
      bytes -= end.bytes;
    }
  }
}

function unchanged(id: string): Change {
  const none = { creation: undefined, begunAtMs: undefined, end: undefined, webhook: undefined };
  return { id, ...none, isDropped: false, waiting: [] };
}

function hasAny({ creation, begunAtMs, end, isDropped, webhook, waiting }: Change): boolean {
  return isDropped || waiting.length > 0 || [creation, begunAtMs, end, webhook].some((part) => part !== undefined);
}

/** Bytes of the body or outcome in the row of a change. */
function bytesOf({ creation, end }: Change): number {
  if (end !== undefined) return end.file === undefined ? end.bytes : 0;
  return creation !== undefined && creation.file === undefined ? creation.body.length : 0;
}
