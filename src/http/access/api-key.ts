/** An API key with its permissions, its limits and its counters in shared memory. */
import { SconceError } from "../../base/errors.ts";
import type { KeyEntry, Permission } from "./key-file.ts";

/**
 * Number of counters of a key in each front: index of the rate window, predictions started in this window,
 * unfinished predictions.
 */
export const NUMBERS_PER_KEY = 3;
const [WINDOW, COUNT, UNFINISHED] = [0, 1, 2] as const;
/** Milliseconds of the units of a rate. */
const windows: Readonly<Record<string, number>> = { s: 1000, min: 60_000, h: 3_600_000 };
/** Characters of the hash of a key's name, at the end of the ids of its predictions, in base64url: 36 bits. */
const TAG_LENGTH = 6;

/** Counters of all keys in shared memory: a row for each front. */
export interface KeyCounts {
  readonly rows: readonly Float64Array[];
  /** Index of the only row that this process writes. */
  readonly own: number;
}

export class ApiKey {
  readonly name: string;
  readonly share: number;
  /** Suffix of the ids of the key's predictions. Other keys cannot read predictions with this suffix. */
  readonly idSuffix: string;
  readonly #entry: KeyEntry;
  readonly #counts: KeyCounts;
  /** Index of the key's first counter in each row. */
  readonly #at: number;

  constructor(entry: KeyEntry, slot: number, counts: KeyCounts) {
    this.name = entry.name;
    this.share = entry.share;
    const digest = new Bun.CryptoHasher("sha256").update(entry.name).digest("base64url");
    this.idSuffix = `.${digest.slice(0, TAG_LENGTH)}`;
    this.#entry = entry;
    this.#counts = counts;
    this.#at = slot * NUMBERS_PER_KEY;
  }

  may(permission: Permission): boolean {
    return this.#entry.only.includes(permission);
  }

  /** Adds the key's suffix to an id if the client left it out. */
  ownId(id: string): string {
    return id.endsWith(this.idSuffix) ? id : id + this.idSuffix;
  }

  /**
   * Counts a prediction as unfinished, until `ended`, and towards the key's rate.
   * @throws SconceError `key_limit` above the key's rate, or with too many unfinished predictions
   */
  reserve(nowMs = Date.now()): void {
    // Counts the prediction before the check, so that two processes never both get the last place.
    this.started();
    try {
      const { concurrent } = this.#entry;
      if (concurrent !== undefined && this.#sum(UNFINISHED) > concurrent)
        throw limited(`the API key ${this.name} has ${concurrent} unfinished predictions, its limit`, 1);
      this.#countInWindow(nowMs);
    } catch (error) {
      this.ended();
      throw error;
    }
  }

  /** Counts a prediction of the key as unfinished, until `ended`. */
  started(): void {
    this.#add(1);
  }

  ended(): void {
    this.#add(-1);
  }

  /** @throws SconceError `key_limit` above the key's rate */
  #countInWindow(nowMs: number): void {
    const { rate } = this.#entry;
    if (rate === undefined) return;
    const [most = "", unit = ""] = rate.split("/");
    const windowMs = windows[unit] ?? 0;
    const window = Math.floor(nowMs / windowMs);
    let count = 0;
    for (const row of this.#counts.rows) if (row[this.#at + WINDOW] === window) count += row[this.#at + COUNT] ?? 0;
    if (count >= Number(most)) {
      const waitS = Math.ceil(((window + 1) * windowMs - nowMs) / 1000);
      throw limited(`the API key ${this.name} has started ${most} predictions in 1 ${unit}, its limit`, waitS);
    }
    const own = this.#own;
    own[this.#at + COUNT] = (own[this.#at + WINDOW] === window ? (own[this.#at + COUNT] ?? 0) : 0) + 1;
    own[this.#at + WINDOW] = window;
  }

  get #own(): Float64Array {
    return this.#counts.rows[this.#counts.own] ?? new Float64Array(0);
  }

  #add(change: number): void {
    const own = this.#own;
    own[this.#at + UNFINISHED] = (own[this.#at + UNFINISHED] ?? 0) + change;
  }

  #sum(number: number): number {
    return this.#counts.rows.reduce((sum, row) => sum + (row[this.#at + number] ?? 0), 0);
  }
}

function limited(message: string, retryAfterS: number): SconceError {
  return new SconceError("key_limit", message, { retryAfterS });
}
