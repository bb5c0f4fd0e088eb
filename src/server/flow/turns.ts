/**
 * Whose input is begun next. As a rule all lists have their turns, one input each; while clients leave before theirs, those that came last go first.
 *
 * A long queue served in order serves everybody too late: each client has just left when its turn comes. How long clients stay nobody knows
 * before they leave. So once the queue has stood above a target for an interval and clients left it, new lists of clients that wait are
 * begun first, and those that have waited longer than the target are refused while their clients still listen: controlled delay with
 * adaptive LIFO (CoDel, ACM Queue 2012; "Fail at Scale", ACM Queue 2015). What was begun is finished first, or nothing would be; lists
 * that no client waits for keep a share of the turns and are not refused.
 */
import { Ring } from "../../base/collections/ring.ts";
import { ClientTurns, earlierOf } from "./client-turns.ts";
import { Arrival, type ItemList } from "./item-list.ts";
import type { Sender } from "./suspects.ts";

export interface TurnsOptions {
  /** Of the turns, while the queue stands, for lists that no client waits for. */
  readonly pollShare: number;
  /** Items that go through the model together. */
  readonly batchSize: number;
  /** Batches of items that are begun before a runner has them, while the queue does not stand. */
  readonly readyBatches: number;
  /** Milliseconds until so many items are begun; 0 while nothing is known. */
  readonly itemsMs: (items: number, nowMs: number) => number;
}

/** A list that has waited longer for its first turn is in a queue that stands, */
const TARGET_MS = 500;
/** if the first in the queue has done so for this long. */
const INTERVAL_MS = 500;
/** The queue stands until none had to be refused for this long: of what is let in the last may be begun at any moment. */
const CALM_MS = 2000;
/** Turns come a batch at a time: below this many batches the target would keep batches from being full. */
const TARGET_BATCHES = 2;
/** The shortest target: for clients that leave before two batches end. */
const LEAST_BATCHES = 0.05;
/** While the queue stands an item waits for the running batch and for its own batch. The tenth is a margin. */
const AHEAD_BATCHES = 2.1;
/** Of the target, what those that wait for their first turn may take together: most of those that cannot be begun are to be told so at once. */
const ADMITTED = 0.2;

export class Turns {
  readonly #options: TurnsOptions;
  readonly #nextNumber = () => ++this.#lastNumber;
  /** Lists that a client waits for and that had no turn yet. */
  readonly #fresh = new ClientTurns(this.#nextNumber);
  /** The same lists in the order in which they came. */
  readonly #arrivals = new Ring<Arrival>();
  /** Lists that a client waits for and that had a turn. */
  readonly #begun = new ClientTurns(this.#nextNumber);
  /** Lists that no client waits for. */
  readonly #polled = new ClientTurns(this.#nextNumber);
  /** Lists that use the credits of quarantined lists. */
  readonly #quarantined = new ClientTurns(this.#nextNumber);
  #freshItems = 0;
  #lastNumber = 0;
  /** Since when the first fresh list has been one that waited longer than the target. */
  #standingSinceMs: number | undefined;
  /** When the last client left before its end, and how long it had stayed. */
  #leftAtMs = -Infinity;
  #stayedMs = Infinity;
  #isStanding = false;
  /** When a list was last refused, or would have been. */
  #refusedAtMs = -Infinity;
  /** Turns that polled lists are owed. */
  #owed = 0;
  #isFreshNext = false;

  constructor(options: TurnsOptions) {
    this.#options = options;
  }

  /** Whether clients leave before they are served. */
  get isStanding(): boolean {
    return this.#isStanding;
  }

  /** Count of lists, without quarantined lists. */
  get size(): number {
    return this.#fresh.size + this.#begun.size + this.#polled.size;
  }

  /** Lets a list have a turn after those that wait now; does nothing to one that waits. */
  add(list: ItemList, nowMs: number): void {
    if (list.ring !== undefined) return;
    if (list.isQuarantined) {
      this.#quarantined.add(list);
    } else if (!list.isWaitedFor) {
      this.#polled.add(list);
    } else if (list.next > 0) {
      this.#begun.add(list);
    } else {
      // Nobody looks while there is nothing to do.
      if (this.#isStanding && this.#arrivals.first === undefined) this.look(nowMs);
      list.queuedAtMs = nowMs;
      list.arrival = new Arrival(list);
      this.#arrivals.add(list.arrival);
      this.#freshItems += list.count;
      this.#fresh.add(list);
    }
  }

  /** Deletes a list that has its turn. */
  take(list: ItemList): void {
    if (this.#fresh.take(list, this.#isStanding)) this.#leaveArrivals(list);
    else for (const lists of [this.#begun, this.#polled, this.#quarantined]) lists.take(list, false);
  }

  /** Deletes a list without a turn. */
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

  /** The same for one whose client has left. */
  leave(list: ItemList, nowMs: number): void {
    if (list.isWaitedFor && !list.isQuarantined && !list.isComplete && !list.isRefused) {
      const stayedMs = nowMs - list.queuedAtMs;
      this.#leftAtMs = nowMs;
      // No queue is short enough for a client that leaves sooner than two batches take.
      if (stayedMs > this.#options.itemsMs(AHEAD_BATCHES * this.#options.batchSize, nowMs)) this.#stayedMs = stayedMs;
    }
    this.delete(list);
  }

  /** Finds out whether the queue stands, and refuses what has waited too long in one that does. */
  look(nowMs: number): void {
    const targetMs = this.#targetMs(nowMs);
    const oldest = this.#arrivals.first?.list;
    if (oldest === undefined) {
      this.#standingSinceMs = undefined;
      // Behind more of the others the next client would wait as long again.
      const isCalm = nowMs - this.#refusedAtMs >= CALM_MS;
      if (isCalm && this.#options.itemsMs(this.#polled.size, nowMs) <= targetMs) this.#isStanding = false;
    } else if (!this.#isStanding) {
      if (nowMs - oldest.queuedAtMs <= targetMs) this.#standingSinceMs = undefined;
      else this.#standingSinceMs ??= nowMs;
      const sinceMs = this.#standingSinceMs ?? Infinity;
      this.#isStanding = nowMs - sinceMs >= INTERVAL_MS && this.#leftAtMs >= sinceMs;
    }
    if (!this.#isStanding) return;
    for (let list = oldest; list !== undefined; list = this.#arrivals.first?.list) {
      if (nowMs - list.queuedAtMs <= targetMs) break;
      this.delete(list);
      this.#refusedAtMs = nowMs;
      list.refuse("overload");
    }
  }

  /** Whose turn it is. */
  next(): ItemList | undefined {
    const polled = this.#polled.first;
    if (!this.#isStanding) return earlierOf(polled, earlierOf(this.#fresh.first, this.#begun.first));
    const waited = this.#nextWaited();
    this.#owed = Math.min(1, this.#owed + this.#options.pollShare);
    if (polled === undefined || (this.#owed < 1 && waited !== undefined)) return waited;
    this.#owed -= 1;
    return polled;
  }

  get firstQuarantined(): ItemList | undefined {
    return this.#quarantined.first;
  }

  /** The next list that has no input on its way to a batch: a new one, or such as had a file fetched. */
  get firstWithoutReady(): ItemList | undefined {
    return earlierOf(this.#fresh.first, earlierOf(firstWithoutReadyOf(this.#begun), firstWithoutReadyOf(this.#polled)));
  }

  /**
   * When one more list of a client is likely to have its first turn, in milliseconds from now, and how long it can wait for that although its
   * client might wait for longer.
   */
  waitMs(
    isWaitedFor: boolean,
    nowMs: number,
    sender?: Sender,
  ): { readonly waitMs: number; readonly patienceMs: number } {
    const { itemsMs, pollShare } = this.#options;
    if (!this.#isStanding) {
      const ahead = this.#fresh.ahead(sender) + this.#begun.ahead(sender) + this.#polled.ahead(sender);
      return { waitMs: itemsMs(ahead, nowMs), patienceMs: Infinity };
    }
    const hasWaited = this.#fresh.size + this.#begun.size > 0;
    if (!isWaitedFor) {
      return { waitMs: itemsMs(this.#polled.ahead(sender), nowMs) / (hasWaited ? pollShare : 1), patienceMs: Infinity };
    }
    // The last one goes first, and what that leaves behind is refused later.
    const patienceMs = Math.max(ADMITTED * TARGET_MS, itemsMs(this.#options.batchSize, nowMs));
    const share = this.#fresh.size === 0 ? 0 : this.#fresh.ahead(sender) / this.#fresh.size;
    const waitMs = itemsMs(share * this.#freshItems, nowMs);
    if (waitMs > patienceMs) this.#refusedAtMs = nowMs;
    return { waitMs, patienceMs };
  }

  /** Clients stay for some time: the target is that time less the batches that are ahead of an item, and its own batch. */
  #targetMs(nowMs: number): number {
    const { itemsMs, batchSize, readyBatches } = this.#options;
    const mostMs = Math.max(TARGET_MS, itemsMs(TARGET_BATCHES * batchSize, nowMs));
    const batches = this.#isStanding ? AHEAD_BATCHES : readyBatches + 2;
    const leastMs = itemsMs(LEAST_BATCHES * batchSize, nowMs);
    return Math.min(mostMs, Math.max(this.#stayedMs - itemsMs(batches * batchSize, nowMs), leastMs));
  }

  /** The newest fresh list, once those that were begun are done; every other turn, where it has less to do than the one whose turn it were. */
  #nextWaited(): ItemList | undefined {
    const [begun, fresh] = [this.#begun.first, this.#fresh.last];
    if (begun === undefined || fresh === undefined) return begun ?? fresh;
    this.#isFreshNext = !this.#isFreshNext && fresh.count <= begun.count - begun.next;
    return this.#isFreshNext ? fresh : begun;
  }
}

/** Looks at as many lists as have something on its way: no more than there is room for. */
function firstWithoutReadyOf(lists: ClientTurns): ItemList | undefined {
  for (const list of lists) if (list.ready + list.preparing === 0) return list;
  return undefined;
}
