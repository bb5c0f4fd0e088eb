/**
 * The queue of a client: its waiting predictions, what its items cost, and how many of them fail. Clients differ by
 * address, and within an address by the name that a proxy reports or the connection has. A client can choose its name but
 * not its address, so all names of an address share the turns of the address. An API key counts as an address.
 */
import { type InRing, Ring } from "../base/collections/ring.ts";

export interface Sender {
  /** IP address of the connection, or the API key. */
  readonly address: string;
  /** Distinguishes senders at the same address. */
  readonly name: string;
  /** Turns of the address for each turn of an address with share 1. Default 1. */
  readonly share?: number;
}

/** Weight of the newest item in the share of failed items. */
const NEWEST_WEIGHT = 1 / 16;
/** The items of a client with a larger share of failed items are separate. */
const MAX_FAILED_SHARE = 1 / 4;
/** A smaller share of failed items is forgotten when the client has no unfinished prediction. */
const MIN_FAILED_SHARE = 1 / 256;
/** Maximum turns that an address owes (`MAX_OWED`), or has saved (`MAX_SAVED`). */
const MAX_OWED = 256;
const MAX_SAVED = 8;

/** The clients with waiting predictions at one address. */
export class Address<T extends InRing<T>> extends Ring<ClientQueue<T>> implements InRing<Address<T>> {
  ring: Ring<Address<T>> | undefined = undefined;
  before: Address<T> | undefined = undefined;
  after: Address<T> | undefined = undefined;
  readonly key: string;
  readonly share: number;
  /** Turns that this address has before the next address. Negative after items that cost more than others. */
  balance: number;
  /** Count of waiting predictions. */
  waiting = 0;
  /** Count of its clients that the server knows. */
  clients = 0;
  /** Count of its predictions that have not ended. */
  unfinished = 0;
  failedShare = 0;

  constructor(key: string, share = 1) {
    super();
    this.key = key;
    this.share = share;
    this.balance = share;
  }

  /** Whether items of its clients often fail. */
  get isSuspect(): boolean {
    return this.failedShare > MAX_FAILED_SHARE;
  }
}

export class ClientQueue<T extends InRing<T>> extends Ring<T> implements InRing<ClientQueue<T>> {
  ring: Ring<ClientQueue<T>> | undefined = undefined;
  before: ClientQueue<T> | undefined = undefined;
  after: ClientQueue<T> | undefined = undefined;
  readonly key: string;
  readonly address: Address<T>;
  /** Count of predictions that have not ended. */
  unfinished = 0;
  #failedShare: number;

  constructor(key: string, address: Address<T>) {
    super();
    this.key = key;
    this.address = address;
    this.#failedShare = address.failedShare;
  }

  /** Whether its items often fail. They share no batch with items of other clients, since a bad item fails its batch. */
  get isSuspect(): boolean {
    return this.#failedShare > MAX_FAILED_SHARE;
  }

  /** Whether to remember the client without a prediction. A new name starts with the failures of its address. */
  get isKept(): boolean {
    return this.address.failedShare > MIN_FAILED_SHARE;
  }

  /** Corrects the cost of an item, which had counted as one turn. @param turns its cost, in mean items */
  pay(turns: number): void {
    const { address } = this;
    address.balance = Math.max(-MAX_OWED, Math.min(MAX_SAVED * address.share, address.balance + 1 - turns));
  }

  /** Counts an item with a result. */
  ended(hasFailed: boolean): void {
    const { address } = this;
    const before = address.failedShare;
    if (before === 0 && !hasFailed) return;
    address.failedShare = nextShare(before, hasFailed);
    // A name with a failure counts at least as much as its address.
    this.#failedShare = nextShare(hasFailed ? Math.max(this.#failedShare, before) : this.#failedShare, hasFailed);
  }
}

function nextShare(share: number, hasFailed: boolean): number {
  return share + NEWEST_WEIGHT * (Number(hasFailed) - share);
}
