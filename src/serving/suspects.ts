/**
 * Clients of whose items many fail in batches: theirs run apart from those of others, and after them, as a batch that fails costs all that are in it.
 *
 * Clients are told apart by their addresses. Behind a proxy all have one: then there are no others, and nothing is set apart.
 */

/** By how much an item counts for the share of a client's items that fail. */
const GAIN = 1 / 16;
/** Of a larger share than this all items go last. */
const MAX_SHARE = 1 / 4;
/** There are others while one of theirs came within this time. */
const OTHERS_MS = 2000;
/** As long after the last failure addresses are not looked at. */
const WATCH_MS = 60_000;
const MAX_CLIENTS = 1000;

export class Suspects {
  readonly #now: () => number;
  /** Shares of those with an item that failed, the one heard of last at the end. */
  readonly #shares = new Map<string, number>();
  #failedAtMs = -Infinity;
  #othersAtMs = -Infinity;

  constructor(now = () => performance.now()) {
    this.#now = now;
  }

  /** Whether it matters who sends what. */
  get isWatching(): boolean {
    return this.#now() - this.#failedAtMs < WATCH_MS;
  }

  /** Whether the items that a client sends now go last. */
  isLate(client: string | undefined): boolean {
    if (client !== undefined && (this.#shares.get(client) ?? 0) > MAX_SHARE) {
      return this.#now() - this.#othersAtMs < OTHERS_MS;
    }
    this.#othersAtMs = this.#now();
    return false;
  }

  /** An item has run, or failed by itself. */
  ended(client: string | undefined, hasFailed: boolean): void {
    if (hasFailed) this.#failedAtMs = this.#now();
    if (client === undefined) return;
    const share = this.#shares.get(client) ?? 0;
    if (share === 0 && !hasFailed) return;
    const next = share + GAIN * (Number(hasFailed) - share);
    // It may have been the only one that came.
    if (share <= MAX_SHARE && next > MAX_SHARE) this.#othersAtMs = -Infinity;
    this.#shares.delete(client);
    this.#shares.set(client, next);
    if (this.#shares.size > MAX_CLIENTS) for (const oldest of this.#shares.keys().take(1)) this.#shares.delete(oldest);
  }
}
