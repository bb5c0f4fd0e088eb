/**
 * Decides which client is next. Addresses take turns, then the clients of an address, then the predictions of a client.
 * A turn is one input. An address with items that cost more than the mean item pays with later turns (surplus round
 * robin).
 */
import { OpenMap } from "../base/collections/open-map.ts";
import { type InRing, Ring } from "../base/collections/ring.ts";
import { hashOf } from "../base/id-hash.ts";
import { Address, Client, type Sender } from "./client.ts";
import type { ItemList } from "./item-list.ts";

/** Maximum clients with failures, but without a prediction, in memory. */
const MAX_KEPT = 10_000;
/** Weight of the newest item in the mean cost of an item. */
const NEWEST_WEIGHT = 1 / 64;
/** A more expensive item counts as this multiple of the mean cost: a device that hung once is no client's fault. */
const MAX_COST = 64;

type ListClient = Client<ItemList>;

export class Clients {
  readonly #addresses = new Ring<Address<ItemList>>();
  readonly #byAddress = new OpenMap<string, Address<ItemList>>(hashOf);
  readonly #byKey = new OpenMap<string, ListClient>(hashOf);
  /** The client of all predictions without a known sender. */
  readonly #unknown: ListClient = new Client("", new Address(""));
  /** Suspect clients that wait until the batch of other suspect clients has ended. */
  readonly #parked = new Ring<ListClient>();
  /** Clients without a prediction whose failures count. The client that came first is first. */
  readonly #kept = new Ring<ListClient>();
  #meanMs = 0;
  /** Count of waiting predictions. */
  size = 0;

  /** Finds or adds the client of a new prediction. */
  enter(list: ItemList): void {
    const client = this.#of(list.sender) ?? this.#add(list.sender);
    list.client = client;
    client.unfinished += 1;
    this.#kept.delete(client);
  }

  /** Removes an ended prediction. */
  leave(list: ItemList): void {
    this.delete(list);
    const { client } = list;
    if (client === undefined) return;
    client.unfinished -= 1;
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

  /** Removes a prediction, which may not wait. */
  delete(list: ItemList): void {
    const { client } = list;
    if (client === undefined || !client.delete(list)) return;
    const { address } = client;
    address.waiting -= 1;
    this.size -= 1;
    if (client.size === 0) this.#drop(client);
  }

  /**
   * The prediction whose client has the next turn.
   * @param isNewest whether to search from the end of each queue
   * @param isFull whether clients that are suspect have no turn now
   */
  next(isNewest: boolean, isFull: boolean): ItemList | undefined {
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

  /**
   * Gives a prediction its turn: the prediction, its client and its address move behind the others. In a queue that is
   * served from its end (`isNewest`), client and address move to the start.
   */
  take(list: ItemList, isNewest: boolean): void {
    const { client } = list;
    if (client === undefined) return;
    const { address } = client;
    if (!isNewest) client.moveToEnd(list);
    move(address, client, isNewest);
    address.balance -= 1;
    if (address.balance > 0) return;
    // Costs that a client had while no other waited do not count.
    address.balance = this.#addresses.size === 1 ? address.share : address.balance + address.share;
    move(this.#addresses, address, isNewest);
  }

  /** Charges a client for an item that has ended. @param costMs its part of the time of its batches */
  charge({ client }: ItemList, costMs: number, hasFailed: boolean): void {
    if (client === undefined || client === this.#unknown) return;
    client.ended(hasFailed);
    if (this.#meanMs > 0) client.pay(Math.min(MAX_COST, costMs / this.#meanMs));
    this.#meanMs += (this.#meanMs > 0 ? NEWEST_WEIGHT : 1) * (costMs - this.#meanMs);
  }

  /** Estimated count of predictions that are served before a new prediction of this sender. */
  ahead(sender: Sender | undefined): number {
    const client = this.#of(sender);
    const address = client?.address ?? (sender && this.#byAddress.get(sender.address));
    const [ofClient, ofAddress] = [client?.size ?? 0, address?.waiting ?? 0];
    const [clients, addresses] = [address?.size ?? 0, this.#addresses.size];
    const inAddress = withTurnsOf(clients - (ofClient > 0 ? 1 : 0), ofClient, ofAddress - ofClient);
    const others = (addresses - (ofAddress > 0 ? 1 : 0)) / (sender?.share ?? 1);
    return Math.ceil(withTurnsOf(others, inAddress, this.size - ofAddress));
  }

  #of(sender: Sender | undefined): ListClient | undefined {
    return sender === undefined ? this.#unknown : this.#byKey.get(keyOf(sender));
  }

  #add(sender: Sender | undefined): ListClient {
    if (sender === undefined) return this.#unknown;
    let address = this.#byAddress.get(sender.address);
    if (address === undefined) {
      address = new Address(sender.address, sender.share);
      this.#byAddress.set(address.key, address);
    }
    const client = new Client(keyOf(sender), address);
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
