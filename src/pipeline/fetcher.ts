/** Fetches files that clients name by URL, from allowed addresses only, with limits for time and bytes. */

import { version } from "../../package.json";
import { codeOf, SconceError } from "../base/errors.ts";
import { raced } from "../base/raced.ts";
import { urlLabel } from "../base/url-label.ts";
import type { AddressGuard } from "../machine/network/address-guard.ts";
import { GuardedRequests } from "../machine/network/guarded-requests.ts";
import { redirectStatuses } from "../machine/network/redirects.ts";
import type { FileMemory } from "./memory/file-memory.ts";

export interface FetcherOptions {
  readonly guard: AddressGuard;
  /** Time limit for one file with all its redirects, from the look-up of the name to the last byte. */
  readonly timeoutMs?: number;
  /** Trusted certificates (PEM). Default: the built-in certificates. */
  readonly ca?: string;
}

export interface FetchedFile {
  readonly bytes: Uint8Array;
  /** In lower case and without parameters; `application/octet-stream` if the server names none. */
  readonly mediaType: string;
}

export interface FetchOptions {
  readonly signal?: AbortSignal;
  /** Limit in bytes for the file. Default: 32 MiB. */
  readonly maxBytes?: number;
  /** Gives memory before the bytes are read. The time limit includes the wait for memory. */
  readonly memory?: FileMemory | undefined;
}

interface Fetching {
  readonly signal: AbortSignal;
  readonly maxBytes: number;
  readonly memory: FileMemory | undefined;
}

const maxUrlLength = 8192;
const MAX_REDIRECTS = 3;
/** An uncompressed answer cannot be a decompression bomb. */
const headers = { Accept: "*/*", "Accept-Encoding": "identity", "User-Agent": `sconce/${version}` };
/**
 * Maximum bytes charged before the read of a file of unknown length. With a charge for each chunk, files could wait for
 * each other.
 */
const UNKNOWN_BYTES = 32 * 2 ** 20;

/**
 * Fetches http and https URLs. Checks every redirect like the first URL. Refuses URLs with a user name or
 * password, redirects to data URIs, and redirects from https to http.
 */
export class Fetcher implements Disposable {
  readonly #timeoutMs: number;
  readonly #requests: GuardedRequests;

  constructor(options: FetcherOptions) {
    this.#timeoutMs = options.timeoutMs ?? 10_000;
    this.#requests = new GuardedRequests(options.guard, options.ca);
  }

  /**
   * Fetches the content of a URL.
   *
   * @throws SconceError `file_refused` for a scheme, an address, a redirect or credentials; `file_unavailable` for the
   * time limit, a status or the connection; `file_too_large`; `file_invalid` for a bad URL or encoding; `canceled` for
   * an aborted signal, or the signal's reason if it is a SconceError
   */
  async fetch(url: string, { signal: outer, maxBytes = 2 ** 25, memory }: FetchOptions = {}): Promise<FetchedFile> {
    if (outer?.aborted) throw canceled(outer.reason);
    const parsed = parseUrl(url);
    return this.#limited(parsed, outer, (signal) => this.#follow(parsed, { signal, maxBytes, memory }));
  }

  /** Closes the idle connections. */
  [Symbol.dispose](): void {
    this.#requests[Symbol.dispose]();
  }

  /** Runs a task. Rejects at the time limit or when `outer` fires, even if the task has not settled. */
  async #limited<T>(url: URL, outer: AbortSignal | undefined, task: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const controller = new AbortController();
    const signal = outer === undefined ? controller.signal : AbortSignal.any([outer, controller.signal]);
    const limit = `${this.#timeoutMs / 1000} s`;
    const timer = setTimeout(
      () => controller.abort(new SconceError("file_unavailable", `${urlLabel(url)} was not there within ${limit}`)),
      this.#timeoutMs,
    );
    try {
      return await raced(task(signal), signal);
    } catch (error) {
      // Closes the connection of an unfinished fetch.
      controller.abort(error);
      throw outer?.aborted ? canceled(outer.reason) : error;
    } finally {
      clearTimeout(timer);
    }
  }

  async #follow(first: URL, fetching: Fetching): Promise<FetchedFile> {
    let url = first;
    for (let redirects = 0; ; redirects++) {
      const response = await this.#request(url, fetching.signal);
      if (!redirectStatuses.has(response.status)) return readFile(url, response, fetching);
      await response.body?.cancel();
      if (redirects === MAX_REDIRECTS) {
        throw refused(`${urlLabel(first)} redirects more than ${MAX_REDIRECTS} times`);
      }
      url = redirectTarget(url, response);
    }
  }

  async #request(url: URL, signal: AbortSignal): Promise<Response> {
    try {
      return await this.#requests.send(url, { signal, headers });
    } catch (error) {
      throw unavailable(url, "could not be fetched", error);
    }
  }
}

function parseUrl(text: string): URL {
  if (text.length > maxUrlLength) {
    throw new SconceError("file_invalid", `a URL has ${text.length} characters; at most ${maxUrlLength} are taken`);
  }
  if (!URL.canParse(text)) throw new SconceError("file_invalid", "a text is not a URL; expected http, https or data");
  return checkUrl(new URL(text), "");
}

function redirectTarget(from: URL, response: Response): URL {
  const location = response.headers.get("location");
  const label = urlLabel(from);
  if (location === null || location.length > maxUrlLength || !URL.canParse(location, from.href)) {
    throw new SconceError("file_unavailable", `${label} answered ${response.status} without a usable Location`);
  }
  const to = checkUrl(new URL(location, from), `${label} redirects to a URL that is refused: `);
  if (from.protocol === "https:" && to.protocol === "http:") throw refused(`${label} redirects from https to http`);
  return to;
}

function checkUrl(url: URL, prefix: string): URL {
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    const scheme = url.protocol.slice(0, 20);
    throw refused(`${prefix}${scheme} URLs are not taken; expected http, https or data`);
  }
  if (url.username !== "" || url.password !== "") {
    throw refused(`${prefix}${urlLabel(url)} is given with a user name or password; leave them out of the URL`);
  }
  return url;
}

async function readFile(url: URL, response: Response, fetching: Fetching): Promise<FetchedFile> {
  const { maxBytes, memory, signal } = fetching;
  if (response.status !== 200) {
    throw new SconceError("file_unavailable", `${urlLabel(url)} answered ${response.status}`);
  }
  const { headers } = response;
  // A Transfer-Encoding overrides the Content-Length (RFC 9112, 6.3). Bun refuses a Content-Length that is not one
  // number.
  const declared = headers.has("transfer-encoding") ? 0 : Number(headers.get("content-length") ?? 0);
  if (declared > maxBytes) throw tooLarge(url, maxBytes);
  const encoding = headers.get("content-encoding")?.trim() ?? "";
  if (encoding !== "" && encoding.toLowerCase() !== "identity") {
    const shown = JSON.stringify(encoding.slice(0, 20));
    throw new SconceError("file_invalid", `${urlLabel(url)} has the Content-Encoding ${shown}; expected none`);
  }
  const taken = declared || Math.min(maxBytes, UNKNOWN_BYTES, memory?.maxUnknownBytes ?? 0);
  await memory?.take(taken, signal);
  const bytes = await readBody(url, response, { ...fetching, declared, taken });
  const mediaType = headers.get("content-type")?.split(";")[0]?.trim().toLowerCase();
  return { bytes, mediaType: mediaType || "application/octet-stream" };
}

async function readBody(
  url: URL,
  response: Response,
  { maxBytes, memory, declared, taken }: Fetching & { readonly declared: number; readonly taken: number },
): Promise<Uint8Array> {
  // A file of known length is read into one array, so it is never in memory twice.
  const whole = new Uint8Array(declared);
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = response.body?.getReader();
  while (reader) {
    // Fails if the connection closes before the end: the body lacks bytes of its Content-Length, or its last chunk.
    const { done, value } = await reader.read().catch((error: unknown) => {
      throw unavailable(url, "broke off before its end", error);
    });
    if (done) break;
    size += value.length;
    if (size > maxBytes) throw tooLarge(url, maxBytes);
    if (size <= declared) {
      whole.set(value, size - value.length);
      freeChunk(value);
      continue;
    }
    memory?.resize(Math.min(value.length, Math.max(0, size - taken)));
    chunks.push(value);
  }
  memory?.resize(Math.min(0, size - taken));
  if (declared > 0) return whole;
  const [only] = chunks;
  return only && chunks.length === 1 ? only : Buffer.concat(chunks, size);
}

/** Frees a copied chunk at once: until garbage collection, the chunks would need as much memory as the file. */
function freeChunk({ buffer, byteLength }: Uint8Array<ArrayBuffer>): void {
  // A larger buffer may also hold other chunks.
  if (buffer.byteLength === byteLength) buffer.transfer(0);
}

function canceled(reason: unknown): SconceError {
  return reason instanceof SconceError ? reason : new SconceError("canceled", "Canceled", { cause: reason });
}

function refused(message: string): SconceError {
  return new SconceError("file_refused", message);
}

function tooLarge(url: URL, maxBytes: number): SconceError {
  return new SconceError("file_too_large", `${urlLabel(url)} has more than ${maxBytes} bytes`);
}

/**
 * An error for clients: `cause` itself if it is a SconceError. The message of another cause is left out, because it
 * names the host's address.
 */
function unavailable(url: URL, what: string, cause: unknown): SconceError {
  if (cause instanceof SconceError) return cause;
  const code = codeOf(cause);
  const why = code === "" ? "" : ` (${code})`;
  return new SconceError("file_unavailable", `${urlLabel(url)} ${what}${why}`, { cause });
}
