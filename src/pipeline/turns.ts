/**
 * Chooses the prediction whose input begins next. Clients take turns, and so do the predictions of a client, one input
 * each.
 *
 * Under overload this order would serve every client after it has left. So while the queue stands and clients leave it
 * without an answer, the newest predictions begin first (adaptive LIFO: "Fail at Scale", ACM Queue 2015).
 */
import type { Sender } from "./client.ts";
import { Clients } from "./clients.ts";
import type { ItemList } from "./item-list.ts";

export interface TurnsOptions {
  /** Largest batch size, times the number of runners. */
  readonly batchItems: () => number;
  /** Expected milliseconds until `items` items have started; 0 for an unknown rate. */
  readonly itemsMs: (items: number, nowMs: number) => number;
}

/** The queue stands once it has not been empty for this many milliseconds. */
const STANDING_MS = 500;
/** The queue stands only after this many batch times: items begin a batch at a time. */
const STANDING_BATCHES = 2;
/** The newest predictions begin first if at least this share leaves without an answer. Single clients always leave. */
const LOST_SHARE = 0.1;
/** Weight of the newest prediction in the share of lost predictions. */
const LOST_WEIGHT = 1 / 32;
/** While the newest predictions begin first, one turn of this many goes to the oldest, so that it begins, too. */
const OLDEST_TURN = 16;
/** Milliseconds after the last failed item of any client for which the senders of predictions matter. */
const WATCH_MS = 60_000;

export class Turns {
  readonly #options: TurnsOptions;
  readonly #clients = new Clients();
  /** When no prediction waited for the last time. */
  #waitingSinceMs = 0;
  #isNewestFirst = false;
  /** Share of the predictions that left without an answer since the queue was empty; newer ones weigh more. */
  #lostShare = 0;
  /** Count of turns while the newest predictions begin first. */
  #turns = 0;
  /** While the newest predictions begin first: a started prediction with several inputs. */
  #current: ItemList | undefined;
  #failedAtMs = -Infinity;
  /** Whether the senders of new predictions matter, since an item has failed lately. */
  isWatching = false;

  constructor(options: TurnsOptions) {
    this.#options = options;
  }

  /** Count of waiting predictions. */
  get size(): number {
    return this.#clients.size;
  }

  /** Finds the client of a new prediction. */
  enter(list: ItemList): void {
    this.#clients.enter(list);
  }

  /** Adds a prediction behind the waiting predictions of its client. Does nothing if it waits already. */
  add(list: ItemList): void {
    this.#clients.add(list);
  }

  /** Removes a prediction without giving it a turn. */
  delete(list: ItemList): void {
    this.#clients.delete(list);
  }

  /** Ends the turn of a prediction, which moves to the end. */
  take(list: ItemList): void {
    if (list.next === 0) this.#count(false);
    if (this.#isNewestFirst) {
      this.#turns += 1;
      if (this.#current?.ring === undefined && list.count > 1) this.#current = list;
    }
    this.#clients.take(list, this.#isNewestFirst);
  }

  /** Removes an ended prediction, and counts it as lost if it has inputs without a result. */
  leave(list: ItemList): void {
    if (!list.isComplete) this.#count(true);
    if (this.#current === list) this.#current = undefined;
    this.#clients.leave(list);
  }

  #count(isLost: boolean): void {
    this.#lostShare += LOST_WEIGHT * ((isLost ? 1 : 0) - this.#lostShare);
  }

  /** Charges the client of an item that has ended. @param costMs its part of the time of its batches */
  charge(list: ItemList, costMs: number, hasFailed: boolean): void {
    if (hasFailed) this.#failedAtMs = performance.now();
    this.#clients.charge(list, costMs, hasFailed);
  }

  /** Decides whether the newest predictions begin first: the queue stands, and clients leave it. */
  look(nowMs: number): void {
    this.isWatching = nowMs - this.#failedAtMs < WATCH_MS;
    if (this.size === 0) {
      this.#waitingSinceMs = nowMs;
      this.#lostShare = 0;
      this.#isNewestFirst = false;
    } else if (!this.#isNewestFirst && this.#lostShare >= LOST_SHARE) {
      const { itemsMs, batchItems } = this.#options;
      const limitMs = Math.max(STANDING_MS, itemsMs(STANDING_BATCHES * batchItems(), nowMs));
      this.#isNewestFirst = nowMs - this.#waitingSinceMs > limitMs;
    }
  }

  /** The prediction whose input begins next. @param isFull whether no item of a suspect client may begin */
  next(isFull: boolean): ItemList | undefined {
    if (!this.#isNewestFirst || this.#turns % OLDEST_TURN === 0) return this.#clients.next(false, isFull);
    const newest = this.#clients.next(true, isFull);
    const current = this.#current;
    if (current?.ring === undefined || newest === undefined || (isFull && current.client?.isSuspect)) return newest;
    // The current prediction goes first, but every second turn goes to a newer prediction with fewer remaining inputs.
    const isNewestNext = this.#turns % 2 === 0 && newest.count <= current.count - current.next;
    return isNewestNext ? newest : current;
  }

  /** Expected count of predictions that begin before a new one. Others leave before they begin. */
  ahead(sender: Sender | undefined): number {
    return Math.ceil((1 - this.#lostShare) * this.#clients.ahead(sender));
  }
}
