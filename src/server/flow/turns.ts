/**
 * Chooses the prediction whose input begins next. Clients take turns, and so do the predictions of a client, one input
 * each.
 *
 * Under overload this order would serve every client after it has left. So once the oldest prediction has waited too
 * long and clients leave, the newest predictions begin first, and predictions that wait too long are refused.
 * Predictions that have begun get at least every second turn. Predictions that no client waits for keep a share of the
 * turns, and are not refused. The method is controlled delay with adaptive LIFO (CoDel, ACM Queue 2012; "Fail at
 * Scale", ACM Queue 2015).
 */
import { Ring } from "../../base/collections/ring.ts";
import { ClientTurns, earlierOf } from "./client-turns.ts";
import { Arrival, type ItemList } from "./item-list.ts";
import type { ItemTimes } from "./item-times.ts";
import type { Sender } from "./quarantine.ts";

export interface TurnsOptions {
  /** Share of the turns, under overload, for predictions that no client waits for. */
  readonly pollShare: number;
  /** Largest batch size, times the number of runners. */
  readonly batchItems: () => number;
  readonly times: Pick<ItemTimes, "meanMs" | "runMs">;
  /** Expected milliseconds until `items` items have begun; 0 for an unknown rate. */
  readonly itemsMs: (items: number, nowMs: number) => number;
}

/**
 * Target for the wait of a new prediction, in milliseconds. `TARGET_BATCHES` may raise it; impatient clients lower it.
 */
const TARGET_MS = 500;
/**
 * Overload begins when clients leave and, for this many milliseconds, the oldest prediction exceeds the target wait or
 * all batches are too late.
 */
const INTERVAL_MS = 500;
/** The overload ends after this many milliseconds without a refusal, once no new prediction waits. */
const CALM_MS = 2000;
/**
 * The target wait is at least this many batch times for patient clients. Items begin a batch at a time, so a shorter
 * wait would make partial batches.
 */
const TARGET_BATCHES = 2;
/** Least target wait, in batch times, however soon clients leave. */
const LEAST_BATCHES = 0.05;
/**
 * Assumed shortest time from the choice of an input to its output, in batch times. A client that leaves sooner does not
 * count for the estimate of patience.
 */
const LEAST_AHEAD_BATCHES = 1.5;
/**
 * Clients that leave within this many batch times are impatient. An input that waits for a whole batch comes too late
 * for them.
 */
const IMPATIENT_BATCHES = 2.5;
/** Factor for a mean time, because some outputs take longer. */
const MARGIN = 1.1;
/** Overload needs at least this share of clients that leave without an answer. Single clients may always leave. */
const LEAVING_SHARE = 0.1;
/** Weight of the newest client in the share of clients that leave. */
const LEAVING_WEIGHT = 1 / 32;
/**
 * Weight of the newest client in the expected patience, if it left sooner than expected. A longer patience replaces the
 * expected one.
 */
const NEWEST_WEIGHT = 0.25;
/**
 * Under overload, limit for the expected wait of a prediction that a client waits for, as a share of `TARGET_MS`. The
 * limit is at least a batch time. Predictions of impatient clients have no limit.
 */
const ADMITTED = 0.2;

export class Turns {
  readonly #options: TurnsOptions;
  readonly #nextNumber = () => ++this.#lastNumber;
  /** Predictions that a client waits for, before their first input begins. */
  readonly #fresh = new ClientTurns(this.#nextNumber);
  /** The predictions of `#fresh`, in the order of their arrival. */
  readonly #arrivals = new Ring<Arrival>();
  /** Predictions that a client waits for, after their first input has begun. */
  readonly #begun = new ClientTurns(this.#nextNumber);
  /** Predictions that no client waits for. */
  readonly #polled = new ClientTurns(this.#nextNumber);
  /** Predictions of quarantined clients. */
  readonly #quarantined = new ClientTurns(this.#nextNumber);
  #freshItems = 0;
  #lastNumber = 0;
  /** Since when the oldest prediction in `#fresh` exceeds the target wait; undefined while it does not. */
  #overTargetSinceMs: number | undefined;
  /** Since when all batches were too late for their clients; undefined after a batch in time. */
  #lateSinceMs: number | undefined;
  /** When a client last left before its answer. */
  #abandonedAtMs = -Infinity;
  /** Share of the clients that left without an answer; newer clients weigh more. */
  #leavingShare = 0;
  /** How long clients wait before they leave, estimated from clients that left. */
  #patienceMs = Infinity;
  #isOverloaded = false;
  /** When a prediction was last refused, or the wait of a new prediction was last above its limit. */
  #refusedAtMs = -Infinity;
  /** Turns that the predictions in `#polled` have earned, from 0 to 1. */
  #polledCredit = 0;
  #isFreshNext = false;

  constructor(options: TurnsOptions) {
    this.#options = options;
  }

  /** Whether the queue is overloaded, and clients leave before their answers. */
  get isOverloaded(): boolean {
    return this.#isOverloaded;
  }

  /** Count of waiting predictions, without those of quarantined clients. */
  get size(): number {
    return this.#fresh.size + this.#begun.size + this.#polled.size;
  }

  /**
   * Adds a prediction behind the waiting predictions of its client. Does nothing if it waits already. If clients are
   * impatient, a new prediction may displace another.
   */
  add(list: ItemList, nowMs: number): void {
    if (list.ring !== undefined) return;
    if (list.isQuarantined) {
      this.#quarantined.add(list);
    } else if (!list.isWaitedFor) {
      this.#polled.add(list);
    } else if (list.next > 0) {
      this.#begun.add(list);
    } else {
      // An idle server does not call `look`, so `#isOverloaded` may be out of date.
      if (this.#isOverloaded && this.#arrivals.first === undefined) this.look(nowMs);
      list.queuedAtMs = nowMs;
      list.arrival = new Arrival(list);
      this.#arrivals.add(list.arrival);
      this.#freshItems += list.count;
      this.#fresh.add(list);
      if (this.isImpatient(nowMs)) this.#displace(nowMs);
    }
  }

  /** Ends the turn of a prediction. A prediction in `#fresh` is removed; any other prediction moves to the end. */
  take(list: ItemList): void {
    if (this.#fresh.take(list, this.#isOverloaded)) {
      this.#leaveArrivals(list);
      this.#countClient(false);
    } else {
      for (const lists of [this.#begun, this.#polled, this.#quarantined]) lists.rotate(list);
    }
  }

  /** Removes a prediction without giving it a turn. @returns whether it was waiting */
  delete(list: ItemList): boolean {
    if (this.#begun.delete(list) || this.#polled.delete(list) || this.#quarantined.delete(list)) return true;
    if (!this.#fresh.delete(list)) return false;
    this.#leaveArrivals(list);
    return true;
  }

  #leaveArrivals(list: ItemList): void {
    this.#freshItems -= list.count;
    if (list.arrival !== undefined) this.#arrivals.delete(list.arrival);
    list.arrival = undefined;
  }

  /** Removes an ended prediction, and learns from a client that left. */
  leave(list: ItemList, nowMs: number): void {
    if (list.isWaitedFor && !list.isQuarantined && !list.isComplete && !list.isRefused) {
      const stayedMs = nowMs - list.queuedAtMs;
      this.#abandonedAtMs = nowMs;
      this.#countClient(true);
      if (stayedMs > LEAST_AHEAD_BATCHES * this.#batchMs(nowMs)) this.#learnPatience(stayedMs);
    }
    this.delete(list);
  }

  #countClient(hasLeft: boolean): void {
    this.#leavingShare += LEAVING_WEIGHT * ((hasLeft ? 1 : 0) - this.#leavingShare);
  }

  /** Resets what begins an overload, after all predictions have ended: the next clients may have another patience. */
  idle(): void {
    this.#overTargetSinceMs = undefined;
    this.#lateSinceMs = undefined;
    this.#leavingShare = 0;
  }

  /**
   * Notes the start of a batch with first inputs of predictions. The newest of these predictions has waited `waitMs`.
   */
  dispatched(waitMs: number, nowMs: number): void {
    if (waitMs + MARGIN * this.#batchMs(nowMs) <= this.#patienceMs) this.#lateSinceMs = undefined;
    else this.#lateSinceMs ??= nowMs;
  }

  #learnPatience(stayedMs: number): void {
    const isFalling = this.#patienceMs < Infinity && stayedMs < this.#patienceMs;
    this.#patienceMs = isFalling ? this.#patienceMs + NEWEST_WEIGHT * (stayedMs - this.#patienceMs) : stayedMs;
  }

  /** If more new predictions wait than fit into a batch, refuses one: impatient clients leave before its turn. */
  #displace(nowMs: number): void {
    const { first } = this.#fresh;
    if (first !== undefined && this.#fresh.size > this.#options.batchItems()) this.#refuse(first, nowMs);
  }

  #refuse(list: ItemList, nowMs: number): void {
    this.delete(list);
    this.#refusedAtMs = nowMs;
    list.refuse("overload");
  }

  /** Decides whether the queue is overloaded. */
  look(nowMs: number): void {
    const targetMs = this.#targetMs(nowMs);
    const oldest = this.#arrivals.first?.list;
    if (oldest === undefined) {
      this.#overTargetSinceMs = undefined;
      // Behind many predictions that no client waits for, the next client would wait too long, so the overload lasts.
      const isCalm = nowMs - this.#refusedAtMs >= CALM_MS;
      if (isCalm && this.#options.itemsMs(this.#polled.size, nowMs) <= targetMs) this.#isOverloaded = false;
    } else if (!this.#isOverloaded) {
      if (nowMs - oldest.queuedAtMs <= targetMs) this.#overTargetSinceMs = undefined;
      else this.#overTargetSinceMs ??= nowMs;
    }
    const sinceMs = Math.min(this.#overTargetSinceMs ?? Infinity, this.#lateSinceMs ?? Infinity);
    const clientsLeave = this.#abandonedAtMs >= sinceMs && this.#leavingShare >= LEAVING_SHARE;
    if (nowMs - sinceMs >= INTERVAL_MS && clientsLeave) this.#isOverloaded = true;
  }

  /** Under overload, refuses predictions that have waited longer than the target. */
  shed(nowMs: number): void {
    if (!this.#isOverloaded) return;
    const targetMs = this.#targetMs(nowMs);
    for (let list = this.#arrivals.first?.list; list !== undefined; list = this.#arrivals.first?.list) {
      if (nowMs - list.queuedAtMs <= targetMs) break;
      this.#refuse(list, nowMs);
    }
  }

  /** The prediction whose input begins next. */
  next(): ItemList | undefined {
    const polled = this.#polled.first;
    if (!this.#isOverloaded) return earlierOf(polled, earlierOf(this.#fresh.first, this.#begun.first));
    const waited = this.#nextWaited();
    this.#polledCredit = Math.min(1, this.#polledCredit + this.#options.pollShare);
    if (polled === undefined || (this.#polledCredit < 1 && waited !== undefined)) return waited;
    this.#polledCredit = Math.max(0, this.#polledCredit - 1);
    return polled;
  }

  get firstQuarantined(): ItemList | undefined {
    return this.#quarantined.first;
  }

  /** The next prediction without an input in `preprocess` or in the engine's queue. */
  get firstWithoutReady(): ItemList | undefined {
    return earlierOf(this.#fresh.first, earlierOf(firstWithoutReadyOf(this.#begun), firstWithoutReadyOf(this.#polled)));
  }

  /** Expected milliseconds until the first turn of a new prediction, and the longest wait with which it is admitted. */
  waitMs(
    isWaitedFor: boolean,
    nowMs: number,
    sender?: Sender,
  ): { readonly waitMs: number; readonly patienceMs: number } {
    const { itemsMs, pollShare } = this.#options;
    if (!this.#isOverloaded) {
      const ahead = this.#fresh.ahead(sender) + this.#begun.ahead(sender) + this.#polled.ahead(sender);
      return { waitMs: itemsMs(ahead, nowMs), patienceMs: Infinity };
    }
    const hasWaited = this.#fresh.size + this.#begun.size > 0;
    if (!isWaitedFor) {
      return { waitMs: itemsMs(this.#polled.ahead(sender), nowMs) / (hasWaited ? pollShare : 1), patienceMs: Infinity };
    }
    if (this.isImpatient(nowMs)) return { waitMs: 0, patienceMs: Infinity };
    // Only a short wait is admitted: the newest prediction goes first, so a prediction that waits long is refused
    // later.
    const patienceMs = Math.max(ADMITTED * TARGET_MS, itemsMs(this.#options.batchItems(), nowMs));
    const share = this.#fresh.size === 0 ? 0 : this.#fresh.ahead(sender) / this.#fresh.size;
    const waitMs = itemsMs(share * this.#freshItems, nowMs);
    if (waitMs > patienceMs) this.#refusedAtMs = nowMs;
    return { waitMs, patienceMs };
  }

  /**
   * Whether the queue is overloaded, and clients leave so early that even an input that waits for one whole batch comes
   * too late.
   */
  isImpatient(nowMs: number): boolean {
    return this.#isOverloaded && this.#patienceMs < IMPATIENT_BATCHES * this.#batchMs(nowMs);
  }

  /**
   * The longest acceptable wait for the first turn: the patience of clients, less the time from the turn to the output.
   */
  #targetMs(nowMs: number): number {
    const mostMs = Math.max(TARGET_MS, this.#batchesMs(TARGET_BATCHES, nowMs));
    // `meanMs` lacks the items of clients that left, so it may be out of date.
    const aheadMs = Math.max(this.#options.times.meanMs, LEAST_AHEAD_BATCHES * this.#batchMs(nowMs));
    const leastMs = this.#batchesMs(LEAST_BATCHES, nowMs);
    return Math.min(mostMs, Math.max(this.#patienceMs - MARGIN * aheadMs, leastMs));
  }

  /** Expected milliseconds of one batch. */
  #batchMs(nowMs: number): number {
    return Math.max(this.#options.times.runMs, this.#batchesMs(1, nowMs));
  }

  #batchesMs(batches: number, nowMs: number): number {
    return this.#options.itemsMs(batches * this.#options.batchItems(), nowMs);
  }

  /**
   * The next prediction that a client waits for. A prediction in `#begun` goes first, but every second turn goes to the
   * newest prediction in `#fresh` if it has no more inputs than the begun prediction has left.
   */
  #nextWaited(): ItemList | undefined {
    const [begun, fresh] = [this.#begun.first, this.#fresh.last];
    if (begun === undefined || fresh === undefined) return begun ?? fresh;
    this.#isFreshNext = !this.#isFreshNext && fresh.count <= begun.count - begun.next;
    return this.#isFreshNext ? fresh : begun;
  }
}

/**
 * The first prediction without an input in `preprocess` or in the engine's queue. Few predictions have
 * such an input, so the loop is short.
 */
function firstWithoutReadyOf(lists: ClientTurns): ItemList | undefined {
  for (const list of lists) if (list.ready + list.preparing === 0) return list;
  return undefined;
}
