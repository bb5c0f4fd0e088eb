/** An HTTP request to a registry and its answer. Follows redirects, and aborts after a time without traffic. */
import { version } from "../../../package.json";
import type { SconceError } from "../../base/errors.ts";
import { isLoopback } from "../../machine/network/loopback.ts";
import { redirectStatuses } from "../../machine/network/redirects.ts";

export interface ExchangeRequest {
  readonly method: string;
  readonly url: URL;
  /**
   * Headers for a request to `url`. Called for each redirect, so that only the registry's origin gets the credentials.
   */
  headers(url: URL): Readonly<Record<string, string>>;
  readonly body?: Blob | Uint8Array | undefined;
  /** Called with the number of bytes sent so far, for bodies above 1 MiB. */
  readonly onSent?: ((bytes: number) => void) | undefined;
}

export interface ExchangeRules {
  readonly signal: AbortSignal;
  /** Longest time without a byte sent or received, in milliseconds. */
  readonly silenceMs: number;
  /** Throws if a redirect must not be followed. */
  checkRedirect(to: URL): Promise<void>;
  /** Converts an error of `fetch` or of the body into the error to throw. */
  failure(url: URL, error: unknown): unknown;
  /** Makes the error for a redirect that is not followed. */
  refusedRedirect(why: string): SconceError;
}

/**
 * After a large body is sent, the time limit is `silenceMs` times this factor: the registry hashes the blob before it
 * answers.
 */
const ANSWER_SILENCES = 10;
const smallBytes = 1024 * 1024;
const maxRedirects = 5;

export class Exchange implements AsyncDisposable {
  readonly #request: ExchangeRequest;
  readonly #rules: ExchangeRules;
  readonly #limit: SilenceLimit;
  #url: URL;
  #response = new Response();

  private constructor(request: ExchangeRequest, rules: ExchangeRules) {
    this.#request = request;
    this.#rules = rules;
    this.#url = request.url;
    this.#limit = new SilenceLimit(rules.signal, rules.silenceMs);
  }

  /** Sends the request and follows redirects. @throws the errors of `rules`, or the signal's reason */
  static async open(request: ExchangeRequest, rules: ExchangeRules): Promise<Exchange> {
    const exchange = new Exchange(request, rules);
    try {
      await exchange.#follow();
      return exchange;
    } catch (error) {
      await exchange[Symbol.asyncDispose]();
      throw error;
    }
  }

  get response(): Response {
    return this.#response;
  }

  /** URL of the answer, after redirects. */
  get url(): URL {
    return this.#url;
  }

  async *chunks(): AsyncGenerator<Uint8Array> {
    const reader = this.#response.body?.getReader();
    try {
      while (reader) {
        const { done, value } = await reader.read().catch((error: unknown) => {
          throw this.#rules.failure(this.#url, error);
        });
        if (done) return;
        this.#limit.touch();
        yield value;
      }
    } finally {
      await reader?.cancel().catch(() => {});
    }
  }

  /** Stops the timer. Closes the connection if nobody has started to read the body. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#limit.end();
    const { body } = this.#response;
    if (body?.locked === false) await body.cancel().catch(() => {});
  }

  async #follow(): Promise<void> {
    const { refusedRedirect, checkRedirect } = this.#rules;
    for (let redirects = 0; ; redirects += 1) {
      this.#response = await this.#send();
      const location = this.#response.headers.get("location");
      if (!redirectStatuses.has(this.#response.status) || location === null) return;
      await this.#response.body?.cancel();
      if (redirects === maxRedirects) throw refusedRedirect(`redirects more than ${maxRedirects} times`);
      const to = URL.canParse(location, this.#url.href) ? new URL(location, this.#url) : undefined;
      const isSafe = to?.protocol === "https:" || (to?.protocol === "http:" && this.#url.protocol === "http:");
      if (to === undefined || !isSafe) throw refusedRedirect("redirects to a URL without https");
      await checkRedirect(to);
      this.#url = to;
    }
  }

  async #send(): Promise<Response> {
    const { method, headers, body } = this.#request;
    const { failure } = this.#rules;
    try {
      return await fetchPlain(this.#url, {
        method,
        headers: { ...headers(this.#url), ...(isLarge(body) && { "Content-Length": String(body.size) }) },
        ...(body !== undefined && { body: isLarge(body) ? this.#watched(body) : body }),
        signal: this.#limit.signal,
      });
    } catch (error) {
      throw failure(this.#url, error);
    }
  }

  /** A stream of the body that reports each sent chunk. */
  #watched(body: Blob): ReadableStream<Uint8Array> {
    let sentBytes = 0;
    const count = new TransformStream<Uint8Array, Uint8Array>({
      transform: (chunk, controller) => {
        controller.enqueue(chunk);
        sentBytes += chunk.length;
        this.#request.onSent?.(sentBytes);
        if (sentBytes < body.size) this.#limit.touch();
        else this.#limit.allow(ANSWER_SILENCES);
      },
    });
    return body.stream().pipeThrough(count);
  }
}

function isLarge(body: Blob | Uint8Array | undefined): body is Blob {
  return body instanceof Blob && body.size > smallBytes;
}

/** Calls `fetch` without following redirects, decompressing bodies or limiting the duration. */
export function fetchPlain(url: URL, init: BunFetchRequestInit): Promise<Response> {
  const headers = new Headers(init.headers);
  headers.set("User-Agent", `sconce/${version}`);
  // Refuses compressed answers, because digests and byte ranges refer to the stored bytes.
  headers.set("Accept-Encoding", "identity");
  return fetch(url, {
    ...init,
    headers,
    redirect: "manual",
    decompress: false,
    timeout: false,
    ...(isLoopback(url.host) && { proxy: false }),
  });
}

/** Aborts its signal after a time without traffic. The total duration has no limit. */
class SilenceLimit {
  readonly signal: AbortSignal;
  readonly #controller = new AbortController();
  readonly #ms: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(signal: AbortSignal, ms: number) {
    this.signal = AbortSignal.any([signal, this.#controller.signal]);
    this.#ms = ms;
    this.#start(ms);
  }

  touch(): void {
    this.#timer?.refresh();
  }

  /** Restarts the timer with `times` the limit, for a phase without traffic. */
  allow(times: number): void {
    this.#start(this.#ms * times);
  }

  end(): void {
    clearTimeout(this.#timer);
  }

  #start(ms: number): void {
    clearTimeout(this.#timer);
    const abort = () => this.#controller.abort(new DOMException("silent for too long", "TimeoutError"));
    this.#timer = setTimeout(abort, ms);
  }
}
