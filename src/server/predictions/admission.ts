/** Decides which requests are admitted: by the inputs and bytes of unfinished predictions, and by the wait for the first turn. */
import { SconceError } from "../../base/errors.ts";
import type { Refusal } from "../../base/labels.ts";
import type { ItemFlow } from "../flow/item-flow.ts";
import type { Sender } from "../flow/quarantine.ts";

/** Inputs and body bytes of unfinished predictions. */
export interface Unfinished {
  items: number;
  bytes: number;
}

export interface AdmissionLimits {
  /** Maximum unfinished inputs of all predictions. */
  readonly maxQueuedItems: number;
  /** Maximum body bytes of all unfinished predictions. */
  readonly maxQueuedBytes: number;
}

export interface AdmissionOptions {
  readonly flow: Pick<ItemFlow, "waitMs">;
  readonly limits: AdmissionLimits;
  /** Counters of this process, for all its models, which the other processes read. */
  readonly unfinished?: Unfinished | undefined;
  /** Whether the process has other models. The unfinished work of one model then leaves as much free for the others as it has itself. */
  readonly hasOthers?: boolean | undefined;
  /** Unfinished predictions of the other processes of this server. The limits count them, too. */
  readonly others?: (() => Readonly<Unfinished>) | undefined;
}

/** Facts of a request that decide its admission. */
export interface Asking extends Readonly<Unfinished> {
  readonly timeLimitMs: number;
  /** Milliseconds that the client waits for the end of the prediction; 0 for a client that does not wait. */
  readonly waitMs: number;
  readonly client?: { readonly sender: Sender | undefined };
}

/** Maximum `Retry-After`. The queue changes within this time. */
const MAX_RETRY_S = 60;

export class Admission {
  readonly #options: AdmissionOptions;
  /** All models of this process. */
  readonly #unfinished: Unfinished;
  /** This model. */
  readonly #own: Unfinished = { items: 0, bytes: 0 };

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.#unfinished = options.unfinished ?? { items: 0, bytes: 0 };
  }

  get unfinished(): Readonly<Unfinished> {
    return this.#own;
  }

  /** Counts an accepted prediction, of a request or of an earlier process. */
  begun(items: number, bytes: number): void {
    this.#unfinished.items += items;
    this.#unfinished.bytes += bytes;
    this.#own.items += items;
    this.#own.bytes += bytes;
  }

  ended(items: number, bytes: number): void {
    this.begun(-items, -bytes);
  }

  /** @throws SconceError `queue_full` */
  check({ items, bytes, timeLimitMs, waitMs: heldMs, client }: Asking): void {
    const { flow, limits, others, hasOthers = false } = this.#options;
    const elsewhere = others?.();
    const allItems = this.#unfinished.items + (elsewhere?.items ?? 0);
    const allBytes = this.#unfinished.bytes + (elsewhere?.bytes ?? 0);
    const isWaitedFor = heldMs > 0;
    const { waitMs, patienceMs: mostMs } = flow.waitMs(isWaitedFor, client);
    const patienceMs = Math.min(timeLimitMs, mostMs, isWaitedFor ? heldMs : Infinity);
    // A single body is always admitted: --max-body-bytes limits it.
    const { maxQueuedItems, maxQueuedBytes } = limits;
    // The threshold of a model is the free part of the queue: Choudhury and Hahne, 1998.
    const own = hasOthers ? this.#own : { items: 0, bytes: 0 };
    const isLong = allItems + items > maxQueuedItems - own.items;
    const isFull = isLong || (allBytes > 0 && allBytes + bytes > maxQueuedBytes - own.bytes);
    if (isFull) throw noRoom(allItems, waitMs, isLong ? "queue" : "bytes");
    checkWait(waitMs, patienceMs);
  }

  /** The error for an accepted request that cannot begin in time. */
  overtaken(): SconceError {
    return queueFull("the queue is too long", this.#options.flow.waitMs(true).waitMs, "time");
  }
}

/** @throws SconceError `queue_full` if the first turn comes after the end of the request's patience */
export function checkWait(waitMs: number, patienceMs: number): void {
  if (waitMs <= patienceMs) return;
  const reason = `the queue is too long (${secondsOf(waitMs)} s) for a request that waits ${secondsOf(patienceMs)} s`;
  throw queueFull(reason, waitMs - patienceMs, "time");
}

/** @param items that have not ended */
export function noRoom(items: number, waitMs: number, limit: "queue" | "bytes"): SconceError {
  return queueFull(`the queue is full (${items} inputs of predictions that have not ended)`, waitMs, limit);
}

/** The last error. Under overload most errors are equal, and making an error costs more than the rest of a refusal. */
let last = new SconceError("queue_full", "");

function queueFull(reason: string, waitMs: number, refusal: Refusal): SconceError {
  const retryAfterS = Math.min(MAX_RETRY_S, Math.max(1, secondsOf(waitMs)));
  const message = `${reason}; try again later`;
  if (last.message !== message || last.retryAfterS !== retryAfterS || last.refusal !== refusal)
    last = new SconceError("queue_full", message, { retryAfterS, refusal });
  return last;
}

function secondsOf(ms: number): number {
  return Math.ceil(ms / 1000);
}
