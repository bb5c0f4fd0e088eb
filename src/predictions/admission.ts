/** Accepts a new request or refuses it with 429, by the unfinished predictions and the expected wait in the queue. */
import { SconceError } from "../base/errors.ts";
import type { Refusal } from "../base/labels.ts";
import type { ItemFlow } from "../pipeline/item-flow.ts";
import type { NewPrediction } from "./request.ts";

/** Number of inputs and of body bytes in unfinished predictions. */
export interface Unfinished {
  items: number;
  bytes: number;
}

export interface AdmissionLimits {
  /** Maximum inputs of all unfinished predictions. */
  readonly maxQueuedItems: number;
  /** Maximum body bytes of all unfinished predictions. */
  readonly maxQueuedBytes: number;
}

export interface AdmissionOptions {
  /** The expected time in the queue of new inputs. */
  readonly queueMs: ItemFlow["waitMs"];
  readonly limits: AdmissionLimits;
  /** Counts that all models of this process share. By default this model counts alone. */
  readonly unfinished?: Unfinished | undefined;
  /** Whether the process has several models. A model may then fill at most as much of the queue as remains free. */
  readonly hasOthers?: boolean | undefined;
  /** Counts of the server's other processes, which are added to those of this process. */
  readonly others?: (() => Readonly<Unfinished>) | undefined;
}

/** Largest expected wait, as a share of the time that a client waits: the estimate has errors, and answers take time. */
const MAX_WAIT_SHARE = 0.8;
/** Maximum `Retry-After` in seconds, even if the expected wait is longer: the queue may become shorter sooner. */
const MAX_RETRY_S = 60;

const nothing: Readonly<Unfinished> = { items: 0, bytes: 0 };

export class Admission {
  readonly #options: AdmissionOptions;
  readonly #unfinished: Unfinished;
  readonly #own: Unfinished = { items: 0, bytes: 0 };

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.#unfinished = options.unfinished ?? { items: 0, bytes: 0 };
  }

  get unfinished(): Readonly<Unfinished> {
    return this.#own;
  }

  /** Counts a prediction as unfinished until `ended`. */
  add(items: number, bytes: number): void {
    this.#unfinished.items += items;
    this.#unfinished.bytes += bytes;
    this.#own.items += items;
    this.#own.bytes += bytes;
  }

  ended(items: number, bytes: number): void {
    this.add(-items, -bytes);
  }

  /**
   * Refuses a new request if the queue has no room, or its client would wait too long.
   * @param items number of its inputs
   * @throws SconceError `queue_full`
   */
  check(
    { bytes, waitMs, client }: Pick<NewPrediction, "bytes" | "waitMs"> & Partial<Pick<NewPrediction, "client">>,
    items: number,
    timeLimitMs: number,
  ): void {
    const { limits, others, hasOthers = false } = this.#options;
    const elsewhere = others?.();
    const allItems = this.#unfinished.items + (elsewhere?.items ?? 0);
    const allBytes = this.#unfinished.bytes + (elsewhere?.bytes ?? 0);
    const queueMs = this.#options.queueMs(client);
    const { maxQueuedItems, maxQueuedBytes } = limits;
    // With several models, a model may hold as much of the queue as remains free (Choudhury and Hahne, 1998).
    const own = hasOthers ? this.#own : nothing;
    const isLong = allItems + items > maxQueuedItems - own.items;
    // A lone body of any size is accepted here: --max-body-bytes limits single bodies.
    const isFull = isLong || (allBytes > 0 && allBytes + bytes > maxQueuedBytes - own.bytes);
    if (isFull) throw noRoom(allItems, queueMs, isLong ? "queue" : "bytes");
    checkWait(queueMs, timeLimitMs, waitMs);
  }
}

/**
 * Refuses a request that would be longer in the queue than its time limit, or than a share of its client's wait.
 * @param queueMs expected milliseconds in the queue of this process, or in the queue that several servers share
 * @throws SconceError `queue_full`
 */
export function checkWait(queueMs: number, timeLimitMs: number, waitMs: number): void {
  const limitMs = Math.min(timeLimitMs, MAX_WAIT_SHARE * waitMs || Infinity);
  if (queueMs <= limitMs) return;
  const reason = `the queue is too long (${secondsOf(queueMs)} s) for a request that waits ${secondsOf(limitMs)} s`;
  throw queueFull(reason, queueMs - limitMs, "time");
}

/**
 * The error for a full queue.
 * @param items number of inputs in the queue
 * @param queueMs expected time in the queue, from which `Retry-After` is set
 */
export function noRoom(items: number, queueMs: number, limit: "queue" | "bytes"): SconceError {
  return queueFull(`the queue is full (${items} inputs of predictions that have not ended)`, queueMs, limit);
}

/** The last error, returned again if the next is equal: creating an Error is the main cost of a refusal. */
let last = new SconceError("queue_full", "");

/** @param retryMs expected milliseconds until a retry is accepted */
function queueFull(reason: string, retryMs: number, refusal: Refusal): SconceError {
  const retryAfterS = Math.min(MAX_RETRY_S, Math.max(1, secondsOf(retryMs)));
  const message = `${reason}; try again later`;
  if (last.message !== message || last.retryAfterS !== retryAfterS || last.refusal !== refusal)
    last = new SconceError("queue_full", message, { retryAfterS, refusal });
  return last;
}

function secondsOf(ms: number): number {
  return Math.ceil(ms / 1000);
}
