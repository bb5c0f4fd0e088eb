/** The API keys of a server. Each process reads the key file again when it changes. */
import { readFileSync } from "node:fs";
import { messageOf, SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { fileStamp } from "../../machine/files/file-stamp.ts";
import { ApiKey, type KeyCounts, NUMBERS_PER_KEY } from "./api-key.ts";
import { hashOfSecret, parseKeys } from "./key-file.ts";

export const MAX_KEYS = 1024;
/** Names of the counters in shared memory: `0`, `1`, … */
export const keyNumbers = Array.from({ length: MAX_KEYS * NUMBERS_PER_KEY }, (_, i) => String(i));
const RELOAD_MS = 1000;
const MAX_SECRET_LENGTH = 256;

export class ApiKeys implements Disposable {
  readonly #path: string;
  readonly #counts: KeyCounts;
  readonly #timer: ReturnType<typeof setInterval>;
  #stamp: string | undefined;
  /** The keys by the hash of their secrets. The time to find a hash tells nothing about a secret. */
  #byHash: ReadonlyMap<string, ApiKey> = new Map();
  #bySuffix: ReadonlyMap<string, ApiKey> = new Map();

  /** Reads the key file, also after later changes. @throws SconceError `usage` for an unreadable or faulty file */
  constructor(path: string, counts: KeyCounts) {
    this.#path = path;
    this.#counts = counts;
    this.#stamp = fileStamp(path);
    this.#load();
    this.#timer = setInterval(() => this.reload(), RELOAD_MS);
    this.#timer.unref();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  /**
   * The key whose secret a request has, as `Authorization: Bearer SECRET` or `X-API-Key: SECRET`; undefined without a
   * known secret.
   */
  find(headers: Headers): ApiKey | undefined {
    const secret = secretOf(headers);
    if (secret === undefined || secret.length > MAX_SECRET_LENGTH) return undefined;
    return this.#byHash.get(hashOfSecret(secret));
  }

  /** The key that created a prediction, found by the suffix of the prediction's id; undefined for an unknown suffix. */
  ofId(id: string): ApiKey | undefined {
    const at = id.indexOf(".");
    return at < 0 ? undefined : this.#bySuffix.get(id.slice(at));
  }

  #load(): void {
    const path = this.#path;
    const entries = parseKeys(contentOf(path), path);
    const byName = new Map(entries.map((entry) => [entry.name, entry]));
    const slots = slotsOf([...byName.keys()], path);
    const byHash = new Map<string, ApiKey>();
    const bySuffix = new Map<string, ApiKey>();
    // Entries with equal names share one ApiKey, so a client can have an old and a new secret. The last entry's limits
    // apply.
    for (const [name, entry] of byName) {
      const key = new ApiKey(entry, slots.get(name) ?? 0, this.#counts);
      for (const each of entries) if (each.name === name) byHash.set(each.hash, key);
      bySuffix.set(key.idSuffix, key);
    }
    if (bySuffix.size < byName.size)
      throw new SconceError("usage", `${path} has two names with equal ends of ids: change one of them`);
    this.#bySuffix = bySuffix;
    this.#byHash = byHash;
    if (entries.length === 0) log.warn(`${path} has no API key: all requests are refused`);
  }

  /** Reads the key file again if it has changed. If the new file has a fault, the server keeps the old keys. */
  reload(): void {
    try {
      const stamp = fileStamp(this.#path);
      if (stamp === this.#stamp) return;
      this.#stamp = stamp;
      this.#load();
      log.info(`Read ${this.#byHash.size} API keys from ${this.#path} again`);
    } catch (error) {
      log.error(`The API keys stay as they were: ${messageOf(error)}`);
    }
  }
}

function secretOf(headers: Headers): string | undefined {
  const [, bearer] = /^Bearer +(\S+) *$/i.exec(headers.get("authorization") ?? "") ?? [];
  return bearer ?? headers.get("x-api-key") ?? undefined;
}

function contentOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new SconceError("usage", `the API keys cannot be read: ${messageOf(error)}`);
  }
}

/**
 * Gives each name a slot in shared memory: its hash, or the next free slot. Sorted names give all processes the same
 * slots.
 */
function slotsOf(names: readonly string[], path: string): ReadonlyMap<string, number> {
  if (names.length > MAX_KEYS)
    throw new SconceError("usage", `${path} has ${names.length} names of keys; at most ${MAX_KEYS} are allowed`);
  const slots = new Map<string, number>();
  const used = new Set<number>();
  for (const name of names.toSorted()) {
    let slot = Number(Bun.hash(name) % BigInt(MAX_KEYS));
    while (used.has(slot)) slot = (slot + 1) % MAX_KEYS;
    used.add(slot);
    slots.set(name, slot);
  }
  return slots;
}
