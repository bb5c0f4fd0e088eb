/**
 * Clients of whose items many fail in batches: theirs run apart from those of others, and after them, as a batch that fails costs all that are in it.
 *
 * Clients are told apart by their addresses, and those of one address by what proxies say they are, or by their connections. One that is new is taken
 * for what its address is: whoever calls itself another each time gains nothing. Where nothing tells clients apart there are no others, and nothing
 * is set apart.
 */

/** Who sent something, as far as that can be told. */
export interface Sender {
  /** Of the connection. */
  readonly address: string;
  /** What tells it from others of that address. */
  readonly name: string;
}

/** Weight of one item in the share of a client's items that fail. */
const GAIN = 1 / 16;
/** Above this share all items of a client go last. */
const MAX_SHARE = 1 / 4;
/** Other clients count as present for so long after an item of theirs. */
const OTHERS_MS = 2000;
/** Clients are told apart for so long after the last failure. */
const WATCH_MS = 60_000;
const MAX_SHARES = 10_000;

export class Suspects {
  readonly #now: () => number;
  /** Shares of addresses with an item that failed, and of their senders, the one heard of last at the end. */
  readonly #shares = new Map<string, number>();
  #failedAtMs = -Infinity;
  #othersAtMs = -Infinity;

  constructor(now = () => performance.now()) {
    this.#now = now;
  }

  /** Whether clients are told apart now: an item has failed of late. */
  get isWatching(): boolean {
    return this.#now() - this.#failedAtMs < WATCH_MS;
  }

  /** Whether the items that a client sends now go last. */
  isLate(client: Sender | undefined): boolean {
    const share = client && (this.#shares.get(keyOf(client)) ?? this.#shares.get(client.address));
    if (share !== undefined && share > MAX_SHARE) return this.#now() - this.#othersAtMs < OTHERS_MS;
    this.#othersAtMs = this.#now();
    return false;
  }

  /** An item has run, or failed by itself. */
  ended(client: Sender | undefined, hasFailed: boolean): void {
    if (hasFailed) this.#failedAtMs = this.#now();
    if (client === undefined) return;
    const share = this.#shares.get(client.address) ?? 0;
    if (share === 0 && !hasFailed) return;
    this.#count(client.address, share, hasFailed);
    const key = keyOf(client);
    this.#count(key, this.#shares.get(key) ?? share, hasFailed);
    for (const oldest of this.#shares.keys()) {
      if (this.#shares.size <= MAX_SHARES) break;
      this.#shares.delete(oldest);
    }
  }

  #count(key: string, share: number, hasFailed: boolean): void {
    const next = share + GAIN * (Number(hasFailed) - share);
    // It may have been the only one that came.
    if (share <= MAX_SHARE && next > MAX_SHARE) this.#othersAtMs = -Infinity;
    this.#shares.delete(key);
    this.#shares.set(key, next);
  }
}

export function keyOf({ address, name }: Sender): string {
  return `${address} ${name}`;
}
