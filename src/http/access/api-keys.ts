/** The API keys of a server. Each process reads the key file again when it changes. */
import { readFileSync } from "node:fs";
import { messageOf, SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { fileStamp } from "../../machine/files/file-stamp.ts";
import { ApiKey } from "./api-key.ts";
import { hashOfSecret, parseKeys } from "./key-file.ts";

const RELOAD_MS = 1000;
const MAX_SECRET_LENGTH = 256;

export class ApiKeys implements Disposable {
  readonly #path: string;
  readonly #timer: ReturnType<typeof setInterval>;
  #stamp: string | undefined;
  /** The keys by the hash of their secrets. The time to find a hash tells nothing about a secret. */
  #byHash: ReadonlyMap<string, ApiKey | undefined> = new Map();

  /** Reads the key file, also after later changes. @throws SconceError `usage` for an unreadable or faulty file */
  constructor(path: string) {
    this.#path = path;
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

  #load(): void {
    const path = this.#path;
    const entries = parseKeys(contentOf(path), path);
    // Entries with equal names share one ApiKey, so a client can have an old and a new secret. The last entry's fields
    // apply.
    const keys = new Map(entries.map((entry) => [entry.name, new ApiKey(entry)]));
    if (new Set([...keys.values()].map(({ idSuffix }) => idSuffix)).size < keys.size)
      throw new SconceError("usage", `${path} has two names with equal ends of ids: change one of them`);
    this.#byHash = new Map(entries.map(({ hash, name }) => [hash, keys.get(name)]));
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
