/**
 * Chooses the list whose input begins next. Clients take turns, and so do the lists of a client, one input each.
 *
 * Under overload this order would serve every client too late: each client leaves just before its turn. The patience of clients is unknown until they
 * leave. The queue is standing when the oldest list has waited longer than a target for an interval, and a share of the clients leaves. Then new lists
 * of waiting clients begin newest first. Lists with a longer wait than the target are refused while their clients still listen. This is
 * controlled delay with adaptive LIFO (CoDel, ACM Queue 2012; "Fail at Scale", ACM Queue 2015). Begun lists are finished first. Lists without a waiting
 * client keep a share of the turns and are not refused.
 */
import { Ring } from "../../base/collections/ring.ts";
import { ClientTurns, earlierOf } from "./client-turns.ts";
import { Arrival, type ItemList } from "./item-list.ts";
import type { ItemTimes } from "./item-times.ts";
import type { Sender } from "./quarantine.ts";

export interface TurnsOptions {
  /** Share of the turns for lists without a waiting client while the queue is standing. */
  readonly pollShare: number;
  /** The largest batch, times the runners. */
  readonly batchItems: () => number;
  readonly times: Pick<ItemTimes, "meanMs" | "runMs">;
  /** Milliseconds until so many items begin; 0 for an unknown rate. */
  readonly itemsMs: (items: number, nowMs: number) => number;
}

/** Longest usual wait for the first turn. */
const TARGET_MS = 500;
/** The queue is standing when its oldest list has been above the target for this long. */
const INTERVAL_MS = 500;
/** The queue is standing until no list was refused for this long. */
const CALM_MS = 2000;
/** Least target in batches: turns come a batch at a time, and a shorter target would make batches partial. */
const TARGET_BATCHES = 2;
/** Least target in batches for clients that leave before two batches end. */
const LEAST_BATCHES = 0.05;
/** The least time from the turn of an input to its output, in batches. No target helps a client with less patience. */
const LEAST_AHEAD_BATCHES = 1.5;
/** Clients with less patience are impatient: they leave before the output of an input that begins when a batch starts. */
const IMPATIENT_BATCHES = 2.5;
/** Outputs of some inputs take longer than the mean. */
const MARGIN = 1.1;
/** The queue is standing only if at least this share of the clients leaves without an answer. Single clients that leave are no overload. */
const LEAVING_SHARE = 0.1;
/** Weight of the newest client in the share of clients that leave. */
const LEAVING_WEIGHT = 1 / 32;
/** Weight of the newest patience when patience falls. A longer patience counts at once. */
const NEWEST_WEIGHT = 0.25;
/** Admitted lists wait this share of the target at most, so that most refusals happen at once. */
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
  /** Since when the oldest fresh list has waited longer than the target. */
  #standingSinceMs: number | undefined;
  /** Since when no batch has a list that its client can wait for. */
  #lateSinceMs: number | undefined;
  /** When the newest client left before its answer. */
  #abandonedAtMs = -Infinity;
  /** Share of the clients that left without an answer, weighted to the newest clients. */
  #leavingShare = 0;
  /** Patience of clients, learned from clients that left. */
  #patienceMs = Infinity;
  #isStanding = false;
  /** When a list was last refused. */
  #refusedAtMs = -Infinity;
  /** Share of a turn that lists without a waiting client have earned. */
  #polledCredit = 0;
  #isFreshNext = false;

  constructor(options: TurnsOptions) {
    this.#options = options;
  }

  /** Whether clients leave before their answers. */
  get isStanding(): boolean {
    return this.#isStanding;
  }

  /** Count of lists, without quarantined lists. */
  get size(): number {
    return this.#fresh.size + this.#begun.size + this.#polled.size;
  }

  /** Adds a list behind the waiting lists of its client. Does nothing for a waiting list. */
  add(list: ItemList, nowMs: number): void {
    if (list.ring !== undefined) return;
    if (list.isQuarantined) {
      this.#quarantined.add(list);
    } else if (!list.isWaitedFor) {
      this.#polled.add(list);
    } else if (list.next > 0) {
      this.#begun.add(list);
    } else {
      // An idle flow does not call `look`.
      if (this.#isStanding && this.#arrivals.first === undefined) this.look(nowMs);
      list.queuedAtMs = nowMs;
      list.arrival = new Arrival(list);
      this.#arrivals.add(list.arrival);
      this.#freshItems += list.count;
      this.#fresh.add(list);
      if (this.isImpatient(nowMs)) this.#displace(nowMs);
    }
  }

  /** Deletes a list at its turn. */
  take(list: ItemList): void {
    if (this.#fresh.take(list, this.#isStanding)) {
      this.#leaveArrivals(list);
      this.#countClient(false);
    } else {
      for (const lists of [this.#begun, this.#polled, this.#quarantined]) lists.take(list, false);
    }
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

  /** Deletes a list whose client has left. */
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

  /** All lists have ended. The next clients have another patience. */
  idle(): void {
    this.#standingSinceMs = undefined;
    this.#lateSinceMs = undefined;
    this.#leavingShare = 0;
  }

  /** A batch has first inputs of lists, the newest of which came `waitMs` ago. */
  dispatched(waitMs: number, nowMs: number): void {
    if (waitMs + MARGIN * this.#batchMs(nowMs) <= this.#patienceMs) this.#lateSinceMs = undefined;
    else this.#lateSinceMs ??= nowMs;
  }

  #learnPatience(stayedMs: number): void {
    const isFalling = this.#patienceMs < Infinity && stayedMs < this.#patienceMs;
    this.#patienceMs = isFalling ? this.#patienceMs + NEWEST_WEIGHT * (stayedMs - this.#patienceMs) : stayedMs;
  }

  /** Keeps a batch of the newest lists: impatient clients leave before older lists have their turn. */
  #displace(nowMs: number): void {
    const { first } = this.#fresh;
    if (first !== undefined && this.#fresh.size > this.#options.batchItems()) this.#refuse(first, nowMs);
  }

  #refuse(list: ItemList, nowMs: number): void {
    this.delete(list);
    this.#refusedAtMs = nowMs;
    list.refuse("overload");
  }

  /** Decides whether the queue is standing. */
  look(nowMs: number): void {
    const targetMs = this.#targetMs(nowMs);
    const oldest = this.#arrivals.first?.list;
    if (oldest === undefined) {
      this.#standingSinceMs = undefined;
      // Behind many lists without a waiting client, the next client would wait too long.
      const isCalm = nowMs - this.#refusedAtMs >= CALM_MS;
      if (isCalm && this.#options.itemsMs(this.#polled.size, nowMs) <= targetMs) this.#isStanding = false;
    } else if (!this.#isStanding) {
      if (nowMs - oldest.queuedAtMs <= targetMs) this.#standingSinceMs = undefined;
      else this.#standingSinceMs ??= nowMs;
    }
    const sinceMs = Math.min(this.#standingSinceMs ?? Infinity, this.#lateSinceMs ?? Infinity);
    const clientsLeave = this.#abandonedAtMs >= sinceMs && this.#leavingShare >= LEAVING_SHARE;
    if (nowMs - sinceMs >= INTERVAL_MS && clientsLeave) this.#isStanding = true;
  }

  /** Refuses lists after too long a wait in a standing queue. */
  shed(nowMs: number): void {
    if (!this.#isStanding) return;
    const targetMs = this.#targetMs(nowMs);
    for (let list = this.#arrivals.first?.list; list !== undefined; list = this.#arrivals.first?.list) {
      if (nowMs - list.queuedAtMs <= targetMs) break;
      this.#refuse(list, nowMs);
    }
  }

  /** The list whose input begins next. */
  next(): ItemList | undefined {
    const polled = this.#polled.first;
    if (!this.#isStanding) return earlierOf(polled, earlierOf(this.#fresh.first, this.#begun.first));
    const waited = this.#nextWaited();
    this.#polledCredit = Math.min(1, this.#polledCredit + this.#options.pollShare);
    if (polled === undefined || (this.#polledCredit < 1 && waited !== undefined)) return waited;
    // Turns without a waiting list cost no credit.
    this.#polledCredit = Math.max(0, this.#polledCredit - 1);
    return polled;
  }

  get firstQuarantined(): ItemList | undefined {
    return this.#quarantined.first;
  }

  /** The next list that has no input between here and a batch. */
  get firstWithoutReady(): ItemList | undefined {
    return earlierOf(this.#fresh.first, earlierOf(firstWithoutReadyOf(this.#begun), firstWithoutReadyOf(this.#polled)));
  }

  /**
   * Expected milliseconds until the first turn of a new list, and the longest admitted wait.
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
    if (this.isImpatient(nowMs)) return { waitMs: 0, patienceMs: Infinity };
    // The newest list goes first. Older lists are refused later.
    const patienceMs = Math.max(ADMITTED * TARGET_MS, itemsMs(this.#options.batchItems(), nowMs));
    const share = this.#fresh.size === 0 ? 0 : this.#fresh.ahead(sender) / this.#fresh.size;
    const waitMs = itemsMs(share * this.#freshItems, nowMs);
    if (waitMs > patienceMs) this.#refusedAtMs = nowMs;
    return { waitMs, patienceMs };
  }

  /** Whether clients leave so early that inputs should begin late. */
  isImpatient(nowMs: number): boolean {
    return this.#isStanding && this.#patienceMs < IMPATIENT_BATCHES * this.#batchMs(nowMs);
  }

  /** The patience of clients, less the time that an input takes after its turn. */
  #targetMs(nowMs: number): number {
    const mostMs = Math.max(TARGET_MS, this.#batchesMs(TARGET_BATCHES, nowMs));
    // The mean has no items of clients that left, so it may be out of date.
    const aheadMs = Math.max(this.#options.times.meanMs, LEAST_AHEAD_BATCHES * this.#batchMs(nowMs));
    const leastMs = this.#batchesMs(LEAST_BATCHES, nowMs);
    return Math.min(mostMs, Math.max(this.#patienceMs - MARGIN * aheadMs, leastMs));
  }

  /** Expected time of one batch. */
  #batchMs(nowMs: number): number {
    return Math.max(this.#options.times.runMs, this.#batchesMs(1, nowMs));
  }

  #batchesMs(batches: number, nowMs: number): number {
    return this.#options.itemsMs(batches * this.#options.batchItems(), nowMs);
  }

  /** A begun list. The newest fresh list has every other turn if it is shorter, and every turn if no list has begun. */
  #nextWaited(): ItemList | undefined {
    const [begun, fresh] = [this.#begun.first, this.#fresh.last];
    if (begun === undefined || fresh === undefined) return begun ?? fresh;
    this.#isFreshNext = !this.#isFreshNext && fresh.count <= begun.count - begun.next;
    return this.#isFreshNext ? fresh : begun;
  }
}

/** Credits bound how many lists have such inputs, and so the length of this loop. */
function firstWithoutReadyOf(lists: ClientTurns): ItemList | undefined {
  for (const list of lists) if (list.ready + list.preparing === 0) return list;
  return undefined;
}
