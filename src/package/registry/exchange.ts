/** Requests to a registry and their answers. An exchange without traffic ends after a time. */
import { version } from "../../../package.json";
import { isLoopback } from "../../machine/network/host-name.ts";
import { type RegistryFault, readFault } from "./fault.ts";

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
export class SilenceLimit {
  readonly signal: AbortSignal;
  readonly #controller = new AbortController();
  readonly #ms: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(signal: AbortSignal, ms: number) {
    this.signal = AbortSignal.any([signal, this.#controller.signal]);
    this.#ms = ms;
    this.touch();
  }

  /** Starts the time again. @param times multiplies the limit, for a phase without traffic */
  touch(times = 1): void {
    clearTimeout(this.#timer);
    const abort = () => this.#controller.abort(new DOMException("silent for too long", "TimeoutError"));
    this.#timer = setTimeout(abort, this.#ms * times);
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}

export interface AnswerOptions {
  readonly response: Response;
  readonly url: URL;
  readonly limit: SilenceLimit;
  /** Converts an error of the body into the error to throw. */
  failure(error: unknown): unknown;
}

export class RegistryAnswer implements AsyncDisposable {
  /** URL of the answer, after redirects. A relative `Location` header is resolved against it. */
  readonly url: URL;
  readonly #options: AnswerOptions;

  constructor(options: AnswerOptions) {
    this.url = options.url;
    this.#options = options;
  }

  get status(): number {
    return this.#options.response.status;
  }

  get headers(): Headers {
    return this.#options.response.headers;
  }

  async *chunks(): AsyncGenerator<Uint8Array> {
    const { response, limit, failure } = this.#options;
    const reader = response.body?.getReader();
    try {
      while (reader) {
        const { done, value } = await reader.read().catch((error: unknown) => {
          throw failure(error);
        });
        if (done) return;
        limit.touch();
        yield value;
      }
    } finally {
      await reader?.cancel().catch(() => {});
    }
  }

  /** Reads the body as a registry's JSON error. */
  fault(): Promise<RegistryFault> {
    return readFault(this.#options.response);
  }

  /** Stops the timer. Closes the connection if nobody has started to read the body. */
  async [Symbol.asyncDispose](): Promise<void> {
    const { response, limit } = this.#options;
    limit.end();
    if (response.body?.locked === false) await response.body.cancel().catch(() => {});
  }
}
