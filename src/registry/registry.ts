/** One repository of one registry over HTTP: authorized requests, redirects, and trying again (OCI distribution spec 1.1). */
import { version } from "../../package.json";
import { isNoFile, SconceError } from "../errors.ts";
import { Authorization } from "./authorization.ts";
import { connectionError, readFault } from "./registry-errors.ts";
import { isLoopback, type RemoteReference } from "./remote-reference.ts";
import { Interruption, Retry } from "./retry.ts";
import { SilenceLimit } from "./silence-limit.ts";

export interface RegistryOptions {
  readonly remote: RemoteReference;
  /** What will be asked of the repository. */
  readonly actions: "pull" | "pull,push";
  /** Other repositories of this registry, to take blobs from. */
  readonly alsoPull?: readonly string[];
  /** Speaks http, without TLS. */
  readonly isPlain: boolean;
  readonly signal: AbortSignal;
  /** Where credentials are looked for; by default the process's own. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Before what was cut short is tried again for the first time. */
  readonly retryDelayMs?: number;
  /** How long a registry may send nothing. */
  readonly silenceMs?: number;
}

export interface RegistryRequest {
  readonly method: "HEAD" | "GET" | "POST" | "PATCH" | "PUT";
  /** Below the repository, for example `manifests/v1`, or the URL of an upload. */
  readonly target: string | URL;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Blob | Uint8Array;
  /** The statuses that the caller understands; all others are errors. */
  readonly expected: readonly number[];
  /** What to say when it is not there (404). */
  readonly missing?: string;
  /** Of the transfer that this is a part of; aborts the request. */
  readonly signal?: AbortSignal;
}

/** An answer whose body is read in pieces. */
export interface RegistryAnswer {
  readonly status: number;
  readonly headers: Headers;
  /** Where it was asked for at last, for what is relative to it. */
  readonly url: URL;
  chunks(): AsyncIterable<Uint8Array>;
}

const maxRedirects = 5;
const redirectStatuses = new Set([301, 302, 303, 307, 308]);
/** A large upload's answer comes only when all was sent, which takes as long as it takes. */
const uploads = new Set(["PATCH", "PUT"]);
const smallBytes = 1024 * 1024;

export class Registry {
  readonly remote: RemoteReference;
  readonly signal: AbortSignal;
  readonly #base: URL;
  readonly #isPlain: boolean;
  readonly #authorization: Authorization;
  readonly #retryDelayMs: number;
  readonly #silenceMs: number;
  #hasAnswered = false;

  constructor(options: RegistryOptions) {
    const { host, repository } = options.remote;
    this.remote = options.remote;
    this.signal = options.signal;
    this.#isPlain = options.isPlain;
    this.#base = new URL(`${this.#isPlain ? "http" : "https"}://${host}/v2/${repository}/`);
    this.#retryDelayMs = options.retryDelayMs ?? 500;
    this.#silenceMs = options.silenceMs ?? 60_000;
    this.#authorization = new Authorization({
      host,
      repository,
      actions: options.actions,
      alsoPull: options.alsoPull,
      env: options.env,
      isPlain: this.#isPlain,
      send: (url, init) =>
        this.#send(url, { ...init, signal: AbortSignal.any([this.signal, AbortSignal.timeout(this.#silenceMs)]) }),
    });
  }

  /**
   * Asks until there is an answer, and gives what `read` makes of it. What `read` throws is thrown as it is.
   *
   * @throws SconceError `registry_unavailable`, `registry_denied`, `registry_refused`
   */
  async ask<T>(request: RegistryRequest, read: (answer: RegistryAnswer) => T | Promise<T>): Promise<T> {
    const retry = this.retry(request.signal);
    for (;;) {
      try {
        return await this.askOnce(request, read);
      } catch (error) {
        await retry.wait(error);
      }
    }
  }

  /** The same, once: what a second try might better is thrown as an `Interruption`. */
  async askOnce<T>(request: RegistryRequest, read: (answer: RegistryAnswer) => T | Promise<T>): Promise<T> {
    const limit = new SilenceLimit(request.signal ?? this.signal, this.#silenceMs);
    // Not for large uploads, whose progress can't be seen from here.
    if (!uploads.has(request.method) || sizeOf(request.body) < smallBytes) limit.touch();
    try {
      const { response, url } = await this.#exchange(request, limit.signal);
      if (!request.expected.includes(response.status)) throw await this.#refusal(request, response);
      return await read({
        status: response.status,
        headers: response.headers,
        url,
        chunks: () => this.#chunks(response, url, limit),
      });
    } finally {
      limit.end();
    }
  }

  retry(signal = this.signal): Retry {
    return new Retry({ signal, firstDelayMs: this.#retryDelayMs });
  }

  /** Whether this host answers as registries do, for a better message than "404". */
  async isRegistry(): Promise<boolean> {
    const signal = AbortSignal.any([this.signal, AbortSignal.timeout(this.#silenceMs)]);
    const request = { method: "GET", target: new URL("/v2/", this.#base), expected: [] } as const;
    const { response } = await this.#exchange(request, signal);
    await response.body?.cancel();
    const isNamed = response.headers.has("docker-distribution-api-version");
    return isNamed || response.status === 401 || (response.ok && !/html/.test(contentType(response)));
  }

  /** Sends a request with the authorization that the registry asks for, and follows redirects. */
  async #exchange(request: RegistryRequest, signal = this.signal): Promise<{ response: Response; url: URL }> {
    let url = new URL(request.target, this.#base);
    for (let redirects = 0, logins = 0; ; ) {
      // Never to another host: blobs are often elsewhere, behind URLs that are signed instead.
      const isOwn = url.origin === this.#base.origin;
      const authorization = isOwn ? this.#authorization.header : undefined;
      const response = await this.#send(url, {
        method: request.method,
        headers: { ...request.headers, ...(authorization !== undefined && { Authorization: authorization }) },
        ...(request.body !== undefined && { body: request.body }),
        signal,
      });
      if (response.status === 401 && isOwn && logins < 2) {
        // A second time where the header was another request's, or its time was over.
        logins += 1;
        const fault = await readFault(response);
        if (logins === 2 && authorization === this.#authorization.header) throw this.#authorization.denied(fault.text);
        await this.#authorization.answer(response.headers.get("www-authenticate"), authorization);
        continue;
      }
      const location = response.headers.get("location");
      if (!redirectStatuses.has(response.status) || location === null) return { response, url };
      await response.body?.cancel();
      url = this.#redirect(url, location);
      redirects += 1;
      if (redirects > maxRedirects) throw this.#refused(`redirects more than ${maxRedirects} times`);
    }
  }

  #redirect(from: URL, location: string): URL {
    const to = URL.canParse(location, from.href) ? new URL(location, from) : undefined;
    if (to?.protocol === "https:" || (to?.protocol === "http:" && from.protocol === "http:")) return to;
    throw this.#refused("redirects to something else than https");
  }

  async #send(url: URL, init: BunFetchRequestInit): Promise<Response> {
    try {
      const headers = new Headers(init.headers);
      headers.set("User-Agent", `sconce/${version}`);
      // What is received has the digest of the bytes as they are stored.
      headers.set("Accept-Encoding", "identity");
      const response = await fetch(url, {
        ...init,
        headers,
        redirect: "manual",
        decompress: false,
        // Bun's own of six minutes would end large uploads.
        timeout: false,
        ...(isLoopback(url.host) && { proxy: false }),
      });
      this.#hasAnswered = true;
      return response;
    } catch (error) {
      throw this.#failure(url, error);
    }
  }

  async *#chunks(response: Response, url: URL, limit: SilenceLimit): AsyncIterable<Uint8Array> {
    const reader = response.body?.getReader();
    try {
      while (reader) {
        const { done, value } = await reader.read().catch((error: unknown) => {
          throw this.#failure(url, error);
        });
        if (done) return;
        limit.touch();
        yield value;
      }
    } finally {
      await reader?.cancel().catch(() => {});
    }
  }

  /** What a fetch or a body ended with: the abort's reason, a fault of this machine, or of the connection. */
  #failure(url: URL, error: unknown): unknown {
    this.signal.throwIfAborted();
    if (error instanceof SconceError || error instanceof Interruption) return error;
    if (isNoFile(error)) {
      return new SconceError("store_corrupt", "a file of the model was removed from the store while it was sent");
    }
    const known = connectionError(url, this.#isPlain, error);
    // A name or port that never answered is likelier to be misspelled than to be restarting.
    return this.#hasAnswered ? new Interruption(known) : known;
  }

  async #refusal({ missing }: RegistryRequest, response: Response): Promise<unknown> {
    const fault = await readFault(response);
    if (response.status === 401 || response.status === 403) return this.#authorization.denied(fault.text);
    const { host, repository } = this.remote;
    if (response.status === 429 || response.status >= 500) {
      const message = `${host} can't answer for ${repository} now: ${fault.text}; try again later`;
      return new Interruption(new SconceError("registry_unavailable", message), retryAfterMs(response));
    }
    if (fault.code === undefined && response.status === 404 && !(await this.isRegistry())) {
      return this.#refused("is not a registry: it has no /v2/; check the name and the port");
    }
    if (response.status === 404 && missing !== undefined) return new SconceError("model_not_found", missing);
    return this.#refused(`refused a request for ${repository}: ${fault.text}`);
  }

  #refused(what: string): SconceError {
    return new SconceError("registry_refused", `${this.remote.host} ${what}`);
  }
}

function sizeOf(body: Blob | Uint8Array = new Uint8Array()): number {
  return body instanceof Blob ? body.size : body.length;
}

function contentType(response: Response): string {
  return response.headers.get("content-type") ?? "";
}

function retryAfterMs(response: Response): number {
  const text = response.headers.get("retry-after") ?? "";
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const date = Date.parse(text);
  return Number.isNaN(date) ? 0 : Math.max(0, date - Date.now());
}
