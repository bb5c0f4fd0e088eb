/** What may come in: inputs and bytes of all that has not ended, and the time until they would have their turn. */
import { SconceError } from "../../base/errors.ts";
import type { Refusal } from "../../base/labels.ts";
import type { ItemFlow } from "../flow/item-flow.ts";
import type { Sender } from "../flow/quarantine.ts";

/** What was accepted and has not ended. */
export interface Unfinished {
  items: number;
  bytes: number;
}

export interface AdmissionLimits {
  /** Maximum inputs that were accepted and have not ended, over all predictions. */
  readonly maxQueuedItems: number;
  /** Maximum body bytes of the predictions that have not ended. */
  readonly maxQueuedBytes: number;
}

export interface AdmissionOptions {
  readonly flow: Pick<ItemFlow, "waitMs">;
  readonly limits: AdmissionLimits;
  /** Counts what this process has accepted and not ended, where others see it. */
  readonly unfinished?: Unfinished | undefined;
  /** What the other processes of this server have accepted and not ended, which counts against the same limits. */
  readonly others?: (() => Readonly<Unfinished>) | undefined;
}

/** A request that asks to come in. */
export interface Asking extends Readonly<Unfinished> {
  readonly timeLimitMs: number;
  /** Milliseconds that the client waits for the end of the prediction; 0 for a client that does not wait. */
  readonly waitMs: number;
  readonly client?: { readonly sender: Sender | undefined };
}

/** Whoever is told to come back later than this may as well come sooner: the queue will be another one. */
const MAX_RETRY_S = 60;

export class Admission {
  readonly #options: AdmissionOptions;
  readonly #unfinished: Unfinished;

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.#unfinished = options.unfinished ?? { items: 0, bytes: 0 };
  }

  get unfinished(): Readonly<Unfinished> {
    return this.#unfinished;
  }

  /** Counts a prediction that was accepted, whether it was asked for here or by an earlier process. */
  begun(items: number, bytes: number): void {
    this.#unfinished.items += items;
    this.#unfinished.bytes += bytes;
  }

  ended(items: number, bytes: number): void {
    this.begun(-items, -bytes);
  }

  /** @throws SconceError `queue_full` */
  check({ items, bytes, timeLimitMs, waitMs: heldMs, client }: Asking): void {
    const { flow, limits, others } = this.#options;
    const elsewhere = others?.();
    const allItems = this.#unfinished.items + (elsewhere?.items ?? 0);
    const allBytes = this.#unfinished.bytes + (elsewhere?.bytes ?? 0);
    const isWaitedFor = heldMs > 0;
    const { waitMs, patienceMs: mostMs } = flow.waitMs(isWaitedFor, client);
    const patienceMs = Math.min(timeLimitMs, mostMs, isWaitedFor ? heldMs : Infinity);
    // A body alone in the queue is always taken: the limit of one body is the server's.
    const isLong = allItems + items > limits.maxQueuedItems;
    const isFull = isLong || (allBytes > 0 && allBytes + bytes > limits.maxQueuedBytes);
    if (isFull) throw noRoom(allItems, waitMs, isLong ? "queue" : "bytes");
    checkWait(waitMs, patienceMs);
  }

  /** The error of a client whose request was accepted and cannot be begun in time after all. */
  overtaken(): SconceError {
    return queueFull("the queue is too long", this.#options.flow.waitMs(true).waitMs, "time");
  }
}

/** @throws SconceError `queue_full` where the turn of a request is later than it can wait */
export function checkWait(waitMs: number, patienceMs: number): void {
  if (waitMs <= patienceMs) return;
  const reason = `the queue is too long (${secondsOf(waitMs)} s) for a request that waits ${secondsOf(patienceMs)} s`;
  throw queueFull(reason, waitMs - patienceMs, "time");
}

/** @param items that have not ended */
export function noRoom(items: number, waitMs: number, limit: "queue" | "bytes"): SconceError {
  return queueFull(`the queue is full (${items} inputs of predictions that have not ended)`, waitMs, limit);
}

/** The last one: under overload most are alike, and the stack that an error finds when it is made is most of what a refusal costs. */
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
