/**
 * Quarantines clients with many failed items, because a bad item fails its whole batch. Items of quarantined clients
 * share no batch with items of other clients, and one such batch is in the engine at most.
 *
 * Clients differ by address, and within an address by the name that a proxy reports or the connection has. A new name
 * starts with the failures of its address, so a client gains nothing by new names.
 */

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
/** A client with a larger share of failed items is quarantined. */
const MAX_FAILED_SHARE = 1 / 4;
/** Clients are checked for this many milliseconds after the last failed item of any client. */
const WATCH_MS = 60_000;
const MAX_SHARES = 10_000;

export class Quarantine {
  readonly #now: () => number;
  /** Share of failed items by address and by sender. The entry that changed last is last. */
  readonly #shares = new Map<string, number>();
  #failedAtMs = -Infinity;

  constructor(now = () => performance.now()) {
    this.#now = now;
  }

  /** Whether an item has failed in the last `WATCH_MS` milliseconds. */
  get isWatching(): boolean {
    return this.#now() - this.#failedAtMs < WATCH_MS;
  }

  /** Whether a new prediction of a client is quarantined. */
  holds(client: Sender | undefined): boolean {
    if (client === undefined || this.#shares.size === 0 || !this.isWatching) return false;
    const share = this.#shares.get(keyOf(client)) ?? this.#shares.get(client.address);
    return share !== undefined && share > MAX_FAILED_SHARE;
  }

  /** Counts an item of a client that has succeeded or failed. */
  ended(client: Sender | undefined, hasFailed: boolean): void {
    if (hasFailed) this.#failedAtMs = this.#now();
    if (client === undefined) return;
    const share = this.#shares.get(client.address) ?? 0;
    if (share === 0 && !hasFailed) return;
    this.#count(client.address, share, hasFailed);
    const key = keyOf(client);
    const own = this.#shares.get(key) ?? share;
    // A name with a failure counts at least as much as its address.
    this.#count(key, hasFailed ? Math.max(own, share) : own, hasFailed);
    for (const oldest of this.#shares.keys()) {
      if (this.#shares.size <= MAX_SHARES) break;
      this.#shares.delete(oldest);
    }
  }

  #count(key: string, share: number, hasFailed: boolean): void {
    const next = share + NEWEST_WEIGHT * (Number(hasFailed) - share);
    this.#shares.delete(key);
    this.#shares.set(key, next);
  }
}

export function keyOf({ address, name }: Sender): string {
  return `${address} ${name}`;
}
