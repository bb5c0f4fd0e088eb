/**
 * Chooses the prediction whose input begins next. Clients take turns, and so do the predictions of a client, one input
 * each.
 *
 * Under overload this order would serve every client after it has left. So while the queue stands and clients leave it
 * without an answer, the newest predictions begin first (adaptive LIFO: "Fail at Scale", ACM Queue 2015). Predictions
 * that have begun get at least every second turn, and predictions that no client waits for keep a share of the turns.
 */
import { ClientTurns, earlierOf } from "./client-turns.ts";
import type { ItemList } from "./item-list.ts";
import type { ItemTimes } from "./item-times.ts";
import type { Sender } from "./quarantine.ts";

export interface TurnsOptions {
  /** Share of the turns, under overload, for predictions that no client waits for. */
  readonly pollShare: number;
  /** Largest batch size, times the number of runners. */
  readonly batchItems: () => number;
  readonly times: Pick<ItemTimes, "meanMs">;
  /** Expected milliseconds until `items` items have begun; 0 for an unknown rate. */
  readonly itemsMs: (items: number, nowMs: number) => number;
}

/** The queue stands once a new prediction has waited in it for this many milliseconds without a break. */
const STANDING_MS = 500;
/** The queue stands only after this many batch times: items begin a batch at a time. */
const STANDING_BATCHES = 2;
/** The newest predictions begin first if at least this share leaves without an answer. Single clients always leave. */
const LOST_SHARE = 0.1;
/** Weight of the newest prediction in the share of lost predictions. */
const LOST_WEIGHT = 1 / 32;

export class Turns {
  readonly #options: TurnsOptions;
  readonly #nextNumber = () => ++this.#lastNumber;
  /** Predictions that a client waits for, before their first input begins. */
  readonly #fresh = new ClientTurns(this.#nextNumber);
  /** Predictions that a client waits for, after their first input has begun. */
  readonly #begun = new ClientTurns(this.#nextNumber);
  /** Predictions that no client waits for. */
  readonly #polled = new ClientTurns(this.#nextNumber);
  /** Predictions of quarantined clients. */
  readonly #quarantined = new ClientTurns(this.#nextNumber);
  #lastNumber = 0;
  /** When `#fresh` was last empty. */
  #waitingSinceMs = 0;
  #isNewestFirst = false;
  /** Share of the predictions that left without an answer since the queue was empty; newer ones weigh more. */
  #lostShare = 0;
  /** Turns that the predictions in `#polled` have earned, from 0 to 1. */
  #polledCredit = 0;
  #isFreshNext = false;

  constructor(options: TurnsOptions) {
    this.#options = options;
  }

  /** Count of waiting predictions, without those of quarantined clients. */
  get size(): number {
    return this.#fresh.size + this.#begun.size + this.#polled.size;
  }

  /** Adds a prediction behind the waiting predictions of its client. Does nothing if it waits already. */
  add(list: ItemList): void {
    if (list.ring !== undefined) return;
    if (list.isQuarantined) {
      this.#quarantined.add(list);
    } else if (!list.isWaitedFor) {
      this.#polled.add(list);
    } else if (list.next > 0) {
      this.#begun.add(list);
    } else {
      this.#fresh.add(list);
    }
  }

  /** Ends the turn of a prediction. A prediction in `#fresh` is removed; any other prediction moves to the end. */
  take(list: ItemList): void {
    if (this.#fresh.take(list, this.#isNewestFirst)) {
      this.#count(false);
    } else {
      for (const lists of [this.#begun, this.#polled, this.#quarantined]) lists.rotate(list);
    }
  }

  /** Removes a prediction without giving it a turn. @returns whether it was waiting */
  delete(list: ItemList): boolean {
    return [this.#fresh, this.#begun, this.#polled, this.#quarantined].some((lists) => lists.delete(list));
  }

  /** Removes an ended prediction, and counts it as lost if its client has left. */
  leave(list: ItemList): void {
    if (list.isWaitedFor && !list.isQuarantined && !list.isComplete) this.#count(true);
    this.delete(list);
  }

  #count(isLost: boolean): void {
    this.#lostShare += LOST_WEIGHT * ((isLost ? 1 : 0) - this.#lostShare);
  }

  /** Decides whether the newest predictions begin first: the queue stands, and clients leave it. */
  look(nowMs: number): void {
    if (this.#fresh.size === 0) {
      this.#waitingSinceMs = nowMs;
      this.#lostShare = 0;
      // Behind many predictions that no client waits for, the next client would wait too long.
      if (this.#options.itemsMs(this.#polled.size, nowMs) <= STANDING_MS) this.#isNewestFirst = false;
    } else if (!this.#isNewestFirst && this.#lostShare >= LOST_SHARE) {
      const { itemsMs, batchItems } = this.#options;
      const limitMs = Math.max(STANDING_MS, itemsMs(STANDING_BATCHES * batchItems(), nowMs));
      this.#isNewestFirst = nowMs - this.#waitingSinceMs > limitMs;
    }
  }

  /** The prediction whose input begins next. */
  next(): ItemList | undefined {
    const polled = this.#polled.first;
    if (!this.#isNewestFirst) return earlierOf(polled, earlierOf(this.#fresh.first, this.#begun.first));
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

  /** Expected milliseconds until the first output of a new prediction, which cannot begin at once. */
  waitMs(nowMs: number, sender?: Sender): number {
    const ahead = this.#fresh.ahead(sender) + this.#begun.ahead(sender) + this.#polled.ahead(sender);
    // Inputs begin a batch at a time.
    const batchItems = this.#options.batchItems();
    const items = batchItems * Math.ceil((ahead + 1) / batchItems);
    return this.#options.itemsMs(items, nowMs) + this.#options.times.meanMs;
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
