/**
 * Decides which waiting prediction is next. Addresses take turns, then the clients of an address, then the predictions
 * of a client.
 *
 * A client can choose its name but not its address, so all names of an address share the turns of the address. An API
 * key counts as an address; its `share` is its number of turns per turn of an address with share 1.
 */
import { OpenMap } from "../base/collections/open-map.ts";
import { type InRing, Ring } from "../base/collections/ring.ts";
import { hashOf } from "../base/id-hash.ts";
import type { ItemList } from "./item-list.ts";
import { keyOf, type Sender } from "./quarantine.ts";

class ClientLists extends Ring<ItemList> implements InRing<ClientLists> {
  ring: Ring<ClientLists> | undefined = undefined;
  before: ClientLists | undefined = undefined;
  after: ClientLists | undefined = undefined;
  /** Sequence number of the client's last turn, or of its arrival in the queue. */
  turn = 0;
  readonly key: string;
  readonly address: AddressClients;

  constructor(key: string, address: AddressClients) {
    super();
    this.key = key;
    this.address = address;
  }
}

class AddressClients extends Ring<ClientLists> implements InRing<AddressClients> {
  ring: Ring<AddressClients> | undefined = undefined;
  before: AddressClients | undefined = undefined;
  after: AddressClients | undefined = undefined;
  turn = 0;
  lists = 0;
  /** Turns that this address still has before the next address is served. */
  remaining: number;
  readonly key: string;
  readonly owner: ClientTurns;
  readonly share: number;

  constructor(key: string, owner: ClientTurns, share = 1) {
    super();
    this.key = key;
    this.owner = owner;
    this.share = share;
    this.remaining = share;
  }
}

export class ClientTurns {
  readonly #nextNumber: () => number;
  readonly #addresses = new Ring<AddressClients>();
  readonly #byAddress = new OpenMap<string, AddressClients>(hashOf);
  readonly #byClient = new OpenMap<string, ClientLists>(hashOf);
  /** The client of all predictions without a known sender. */
  readonly #unknown = new ClientLists("", new AddressClients("", this));
  #size = 0;

  /**
   * Creates an empty queue. `nextNumber` returns ascending numbers for all instances, because `earlierOf` compares
   * turns of different instances.
   */
  constructor(nextNumber: () => number) {
    this.#nextNumber = nextNumber;
  }

  get size(): number {
    return this.#size;
  }

  get first(): ItemList | undefined {
    return this.#addresses.first?.first?.first;
  }

  get last(): ItemList | undefined {
    return this.#addresses.last?.last?.last;
  }

  add(list: ItemList): void {
    const client = this.#clientOf(list.client) ?? this.#addClient(list.client);
    const { address } = client;
    list.turn = this.#nextNumber();
    if (client.ring === undefined) client.turn = list.turn;
    if (address.ring === undefined) address.turn = list.turn;
    client.add(list);
    address.add(client);
    address.lists += 1;
    this.#addresses.add(address);
    this.#size += 1;
  }

  /** Removes a prediction. @returns false if the prediction is not in this queue */
  delete(list: ItemList): boolean {
    const client = list.ring;
    if (!(client instanceof ClientLists) || client.address.owner !== this) return false;
    const { address } = client;
    client.delete(list);
    address.lists -= 1;
    this.#size -= 1;
    if (client.size > 0) return true;
    address.delete(client);
    this.#byClient.delete(client.key);
    if (address.size > 0) return true;
    this.#addresses.delete(address);
    this.#byAddress.delete(address.key);
    return true;
  }

  /** Removes a prediction, and ends the turn of its client. @returns false if the prediction is not in this queue */
  take(list: ItemList, isNewestFirst: boolean): boolean {
    const client = list.ring;
    if (!this.delete(list) || !(client instanceof ClientLists)) return false;
    this.#endTurn(client, isNewestFirst);
    return true;
  }

  /** Moves a prediction behind the other predictions of its client, and ends the client's turn. */
  rotate(list: ItemList): void {
    const client = list.ring;
    if (!(client instanceof ClientLists) || client.address.owner !== this) return;
    list.turn = this.#nextNumber();
    client.moveToEnd(list);
    this.#endTurn(client, false);
  }

  /**
   * Ends the turn of a client and, after `share` turns, of its address. Both move behind the others. In a queue that is
   * served from its end (`isNewestFirst`), they move to the start.
   */
  #endTurn(client: ClientLists, isNewestFirst: boolean): void {
    const { address } = client;
    client.turn = this.#nextNumber();
    if (isNewestFirst) address.moveToStart(client);
    else address.moveToEnd(client);
    address.remaining -= 1;
    if (address.remaining > 0) return;
    address.remaining = address.share;
    address.turn = client.turn;
    if (isNewestFirst) this.#addresses.moveToStart(address);
    else this.#addresses.moveToEnd(address);
  }

  *[Symbol.iterator](): Generator<ItemList> {
    for (const address of this.#addresses) for (const client of address) yield* client;
  }

  /** Estimated count of predictions that are served before a new prediction of this sender. */
  ahead(sender: Sender | undefined): number {
    const client = this.#clientOf(sender);
    const address = client?.address ?? (sender && this.#byAddress.get(sender.address));
    const [ofClient, ofAddress] = [client?.size ?? 0, address?.lists ?? 0];
    const [clients, addresses] = [address?.size ?? 0, this.#addresses.size];
    const inAddress = withTurnsOf(clients - (ofClient > 0 ? 1 : 0), ofClient, ofAddress - ofClient);
    const others = (addresses - (ofAddress > 0 ? 1 : 0)) / (sender?.share ?? 1);
    return Math.ceil(withTurnsOf(others, inAddress, this.#size - ofAddress));
  }

  #clientOf(sender: Sender | undefined): ClientLists | undefined {
    return sender === undefined ? this.#unknown : this.#byClient.get(keyOf(sender));
  }

  #addClient(sender: Sender | undefined): ClientLists {
    if (sender === undefined) return this.#unknown;
    let address = this.#byAddress.get(sender.address);
    if (address === undefined) {
      address = new AddressClients(sender.address, this, sender.share);
      this.#byAddress.set(address.key, address);
    }
    const client = new ClientLists(keyOf(sender), address);
    this.#byClient.set(client.key, client);
    return client;
  }
}

/**
 * Count of predictions that a round robin serves before a new one: the `own` predictions of its client, and up to
 * `own+1` of each of the `others`. The others together have `rest` predictions.
 */
function withTurnsOf(others: number, own: number, rest: number): number {
  return own + Math.min(rest, others * (own + 1));
}

/**
 * Returns the prediction whose address had its turn earlier. Within one address the client's turn decides, and within
 * one client the prediction's turn.
 */
export function earlierOf(a: ItemList | undefined, b: ItemList | undefined): ItemList | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  const [x, y] = [a.ring, b.ring];
  if (x instanceof ClientLists && y instanceof ClientLists && x.key !== y.key) {
    const isOfOneAddress = x.address.key === y.address.key;
    return (isOfOneAddress ? x.turn < y.turn : x.address.turn < y.address.turn) ? a : b;
  }
  return a.turn < b.turn ? a : b;
}
