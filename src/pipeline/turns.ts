/**
 * Chooses the prediction whose input begins next. Addresses take turns, then the clients of an address, then the
 * predictions of a client. A turn is one input. An address with items that cost more than the mean item pays with later
 * turns (surplus round robin).
 *
 * Under overload this order would serve every client after it has left. So while the queue stands and clients leave it
 * without an answer, the newest predictions begin first (adaptive LIFO: "Fail at Scale", ACM Queue 2015).
 */
import { OpenMap } from "../base/collections/open-map.ts";
import { type InRing, Ring } from "../base/collections/ring.ts";
import { hashOf } from "../base/id-hash.ts";
import { Address, ClientQueue, type Sender } from "./client.ts";
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
/** Maximum clients with failures, but without a prediction, in memory. */
const MAX_KEPT = 10_000;
/** Weight of the newest item in the mean cost of an item. */
const COST_WEIGHT = 1 / 64;
/** A more expensive item counts as this multiple of the mean cost: a device that hung once is no client's fault. */
const MAX_COST = 64;

type ListClient = ClientQueue<ItemList>;

export class Turns {
  readonly #options: TurnsOptions;
  readonly #addresses = new Ring<Address<ItemList>>();
  readonly #byAddress = new OpenMap<string, Address<ItemList>>(hashOf);
  readonly #byKey = new OpenMap<string, ListClient>(hashOf);
  /** The client of all predictions without a known sender. */
  readonly #unknown: ListClient = new ClientQueue("", new Address(""));
  /** Suspect clients, which wait for the end of a batch of other suspect clients. */
  readonly #parked = new Ring<ListClient>();
  /** Clients without a prediction whose failures count. The client that came first is first. */
  readonly #kept = new Ring<ListClient>();
  #meanMs = 0;
  /** Since when the queue has not been empty; undefined while it is empty. */
  #waitingSinceMs: number | undefined;
  #isNewestFirst = false;
  /** Share of predictions without an answer among all since the queue was empty; newer predictions weigh more. */
  #lostShare = 0;
  /** Count of turns while the newest predictions begin first. */
  #turns = 0;
  /** While the newest predictions begin first: a started prediction with several inputs. */
  #current: ItemList | undefined;
  #failedAtMs = -Infinity;
  /** Count of waiting predictions. */
  size = 0;
  /** Whether the senders of new predictions matter, since an item has failed lately. */
  isWatching = false;

  constructor(options: TurnsOptions) {
    this.#options = options;
  }

  /** Finds or adds the client of a new prediction. */
  enter(list: ItemList): void {
    const client = this.#of(list.sender) ?? this.#addClient(list.sender);
    list.client = client;
    client.unfinished += 1;
    client.address.unfinished += 1;
    this.#kept.delete(client);
  }

  /** Removes an ended prediction, and counts it as lost if it has inputs without a result. */
  leave(list: ItemList): void {
    if (!list.isComplete) this.#count(true);
    if (this.#current === list) this.#current = undefined;
    this.delete(list);
    const { client } = list;
    if (client === undefined) return;
    client.unfinished -= 1;
    client.address.unfinished -= 1;
    if (client.unfinished > 0 || client === this.#unknown) return;
    if (client.isKept) this.#kept.add(client);
    else this.#forget(client);
    if (this.#kept.size > MAX_KEPT && this.#kept.first !== undefined) this.#forget(this.#kept.first);
  }

  /** Adds a prediction behind the waiting predictions of its client. Does nothing if it waits already. */
  add(list: ItemList): void {
    const { client } = list;
    if (list.ring !== undefined || client === undefined) return;
    client.add(list);
    client.address.waiting += 1;
    this.size += 1;
    if (client.ring === undefined) this.#join(client);
  }

  /** Removes a prediction without giving it a turn. Does nothing if the prediction does not wait. */
  delete(list: ItemList): void {
    const { client } = list;
    if (client === undefined || !client.delete(list)) return;
    client.address.waiting -= 1;
    this.size -= 1;
    if (client.size === 0) this.#drop(client);
    if (this.size > 0) return;
    this.#waitingSinceMs = undefined;
    this.#lostShare = 0;
    this.#isNewestFirst = false;
  }

  /** Decides whether the newest predictions begin first: the queue stands, and clients leave it. */
  look(nowMs: number): void {
    this.isWatching = nowMs - this.#failedAtMs < WATCH_MS;
    if (this.size === 0) return;
    this.#waitingSinceMs ??= nowMs;
    if (!this.#isNewestFirst && this.#lostShare >= LOST_SHARE) {
      const { itemsMs, batchItems } = this.#options;
      const limitMs = Math.max(STANDING_MS, itemsMs(STANDING_BATCHES * batchItems(), nowMs));
      this.#isNewestFirst = nowMs - this.#waitingSinceMs > limitMs;
    }
  }

  /** The prediction whose input begins next. @param isFull whether no item of a suspect client may begin */
  next(isFull: boolean): ItemList | undefined {
    if (!this.#isNewestFirst || this.#turns % OLDEST_TURN === 0) return this.#nextFrom(false, isFull);
    const newest = this.#nextFrom(true, isFull);
    const current = this.#current;
    if (current?.ring === undefined || newest === undefined || (isFull && current.client?.isSuspect)) return newest;
    // The current prediction goes first, but every second turn goes to a newer prediction with fewer remaining inputs.
    const isNewestNext = this.#turns % 2 === 0 && newest.count <= current.count - current.next;
    return isNewestNext ? newest : current;
  }

  /**
   * Gives a prediction its turn: the prediction, its client and its address move behind the others. While the newest
   * begin first, client and address move to the start, because the queue is served from its end.
   */
  take(list: ItemList): void {
    if (list.next === 0) this.#count(false);
    const { client } = list;
    if (client === undefined) return;
    const { address } = client;
    if (this.#isNewestFirst) {
      this.#turns += 1;
      if (this.#current?.ring === undefined && list.count > 1) this.#current = list;
    } else client.moveToEnd(list);
    move(address, client, this.#isNewestFirst);
    address.balance -= 1;
    if (address.balance > 0) return;
    // Costs that a client had while no other waited do not count.
    address.balance = this.#addresses.size === 1 ? address.share : address.balance + address.share;
    move(this.#addresses, address, this.#isNewestFirst);
  }

  /** Whether a prediction of this sender may begin out of turn, if its address gets `coming` more predictions. */
  mayPass(sender: Sender | undefined, coming = 0): boolean {
    const client = this.#of(sender);
    const address = client?.address ?? (sender && this.#byAddress.get(sender.address));
    if (address === undefined) return true;
    return address.unfinished + coming <= this.#options.batchItems() / 2 && !(client ?? address).isSuspect;
  }

  /** Charges a client for an ended item. @param costMs the item's part of the time of its batches */
  charge({ client }: ItemList, costMs: number, hasFailed: boolean): void {
    if (hasFailed) {
      this.#failedAtMs = performance.now();
      this.isWatching = true;
    }
    if (client === undefined || client === this.#unknown) return;
    client.ended(hasFailed);
    if (this.#meanMs > 0) client.pay(Math.min(MAX_COST, costMs / this.#meanMs));
    this.#meanMs += (this.#meanMs > 0 ? COST_WEIGHT : 1) * (costMs - this.#meanMs);
  }

  /** Expected count of predictions that begin before a new one of this sender. Others leave before they begin. */
  ahead(sender: Sender | undefined): number {
    const client = this.#of(sender);
    const address = client?.address ?? (sender && this.#byAddress.get(sender.address));
    const [ofClient, ofAddress] = [client?.size ?? 0, address?.waiting ?? 0];
    const [clients, addresses] = [address?.size ?? 0, this.#addresses.size];
    const inAddress = withTurnsOf(clients - (ofClient > 0 ? 1 : 0), ofClient, ofAddress - ofClient);
    const others = (addresses - (ofAddress > 0 ? 1 : 0)) / (sender?.share ?? 1);
    return Math.ceil((1 - this.#lostShare) * Math.ceil(withTurnsOf(others, inAddress, this.size - ofAddress)));
  }

  /** Predictions that leave while none waits do not count: they have begun. */
  #count(isLost: boolean): void {
    if (this.size > 0) this.#lostShare += LOST_WEIGHT * (Number(isLost) - this.#lostShare);
  }

  /** The prediction whose client has the next turn, from the start or from the end of each queue. */
  #nextFrom(isNewest: boolean, isFull: boolean): ItemList | undefined {
    if (!isFull) this.#unpark();
    for (;;) {
      const address = isNewest ? this.#addresses.last : this.#addresses.first;
      if (address === undefined) return undefined;
      const client = isNewest ? address.last : address.first;
      if (address.balance <= 0 && this.#addresses.size > 1) {
        address.balance += address.share;
        move(this.#addresses, address, isNewest);
      } else if (client?.isSuspect && isFull) {
        this.#drop(client);
        this.#parked.add(client);
      } else {
        return isNewest ? client?.last : client?.first;
      }
    }
  }

  #of(sender: Sender | undefined): ListClient | undefined {
    return sender === undefined ? this.#unknown : this.#byKey.get(keyOf(sender));
  }

  #addClient(sender: Sender | undefined): ListClient {
    if (sender === undefined) return this.#unknown;
    let address = this.#byAddress.get(sender.address);
    if (address === undefined) {
      address = new Address(sender.address, sender.share);
      this.#byAddress.set(address.key, address);
    }
    const client = new ClientQueue(keyOf(sender), address);
    address.clients += 1;
    this.#byKey.set(client.key, client);
    return client;
  }

  #forget(client: ListClient): void {
    const { address } = client;
    this.#kept.delete(client);
    this.#byKey.delete(client.key);
    address.clients -= 1;
    if (address.clients === 0) this.#byAddress.delete(address.key);
  }

  #join(client: ListClient): void {
    client.address.add(client);
    this.#addresses.add(client.address);
  }

  /** Removes a client from the queue of its address, or from the parked clients. */
  #drop(client: ListClient): void {
    const { address } = client;
    client.ring?.delete(client);
    if (address.size === 0) this.#addresses.delete(address);
  }

  #unpark(): void {
    for (let client = this.#parked.first; client !== undefined; client = this.#parked.first) {
      this.#parked.delete(client);
      this.#join(client);
    }
  }
}

function move<T extends InRing<T>>(ring: Ring<T>, member: T, toStart: boolean): void {
  if (toStart) ring.moveToStart(member);
  else ring.moveToEnd(member);
}

/**
 * Count of predictions that a round robin serves before a new one: the `own` predictions of its client, and up to
 * `own+1` of each of the `others`. The others together have `rest` predictions.
 */
function withTurnsOf(others: number, own: number, rest: number): number {
  return own + Math.min(rest, others * (own + 1));
}

function keyOf({ address, name }: Sender): string {
  return `${address} ${name}`;
}
