/** One repository of one registry over HTTP: authorized requests, redirects, and trying again (OCI distribution spec 1.1). */
import { isNoFile, SconceError } from "../../base/errors.ts";
import { Exchange, send } from "../../machine/network/exchange.ts";
import type { Resolver } from "../../machine/network/name-resolver.ts";
import { Interruption, Retry } from "../../machine/network/retry.ts";
import { Authorization } from "./authorization.ts";
import { type Manners, mannersOf } from "./manners.ts";
import { Reach } from "./reach.ts";
import { connectionError, type RegistryFault, readFault } from "./registry-errors.ts";
import type { RemoteReference } from "./remote-reference.ts";

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
  /** The longest time without a byte sent or received. */
  readonly silenceMs?: number;
  /** By default those of the host. */
  readonly manners?: Manners;
  /** Finds the addresses of hosts that the registry names; by default that of the process. */
  readonly resolver?: Resolver;
}

export interface RegistryRequest {
  readonly method: "HEAD" | "GET" | "POST" | "PATCH" | "PUT";
  /** Below the repository, for example `manifests/v1`, or the URL of an upload. */
  readonly target: string | URL;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Blob | Uint8Array;
  /** Called with the bytes of a large body that are sent. */
  readonly onSent?: (bytes: number) => void;
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
  /** What the body says of an error. */
  fault(): Promise<RegistryFault>;
}

const maxRedirects = 5;
const maxLogins = 2;

export class Registry {
  readonly remote: RemoteReference;
  readonly signal: AbortSignal;
  readonly manners: Manners;
  readonly #base: URL;
  readonly #isPlain: boolean;
  readonly #authorization: Authorization;
  readonly #reach: Reach;
  readonly #retryDelayMs: number;
  readonly #silenceMs: number;
  #hasAnswered = false;

  constructor(options: RegistryOptions) {
    const { host, repository } = options.remote;
    this.remote = options.remote;
    this.signal = options.signal;
    this.manners = options.manners ?? mannersOf(host);
    this.#isPlain = options.isPlain;
    this.#base = new URL(`${this.#isPlain ? "http" : "https"}://${this.manners.apiHost ?? host}/v2/${repository}/`);
    this.#reach = new Reach(this.#base.hostname, options.resolver);
    this.#retryDelayMs = options.retryDelayMs ?? 500;
    this.#silenceMs = options.silenceMs ?? 60_000;
    this.#authorization = new Authorization({
      host,
      repository,
      actions: options.actions,
      alsoPull: options.alsoPull,
      env: options.env,
      manners: this.manners,
      isPlain: this.#isPlain,
      send: (url, init) => this.#sendForToken(url, init),
    });
  }

  /**
   * Asks until there is an answer, and gives what `read` makes of it. What `read` throws is thrown as it is.
   *
   * @throws SconceError `registry_unavailable`, `registry_denied`, `registry_refused`
   */
  async ask<T>(request: RegistryRequest, read: (answer: RegistryAnswer) => T | Promise<T>): Promise<T> {
    return this.retry(request.signal).run(() => this.askOnce(request, read));
  }

  /** The same, once: what a second try might better is thrown as an `Interruption`. */
  async askOnce<T>(request: RegistryRequest, read: (answer: RegistryAnswer) => T | Promise<T>): Promise<T> {
    await using exchange = await this.#exchange(request, request.signal ?? this.signal);
    const { response, url } = exchange;
    if (!request.expected.includes(response.status)) throw await this.#refusal(request, response);
    return await read({
      status: response.status,
      headers: response.headers,
      url,
      chunks: () => exchange.chunks(),
      fault: () => readFault(response),
    });
  }

  retry(signal = this.signal): Retry {
    return new Retry({ signal, firstDelayMs: this.#retryDelayMs });
  }

  /** Whether this host answers as registries do, for a better message than "404". */
  async isRegistry(): Promise<boolean> {
    const request = { method: "GET", target: new URL("/v2/", this.#base), expected: [] } as const;
    await using exchange = await this.#exchange(request, this.signal);
    const { response } = exchange;
    const isNamed = response.headers.has("docker-distribution-api-version");
    return isNamed || response.status === 401 || (response.ok && !/html/.test(contentType(response)));
  }

  /** @throws SconceError `registry_refused` for a URL that this registry must not lead to */
  async #checkReach(url: URL): Promise<void> {
    if (await this.#reach.includes(url, this.signal)) return;
    throw this.#refused(`leads to ${url.host}, which is in a private network; a public registry must not`);
  }

  /** Sends a request with the authorization that the registry asks for, and follows redirects. */
  async #exchange(request: RegistryRequest, signal: AbortSignal): Promise<Exchange> {
    for (let logins = 0; ; logins += 1) {
      const authorization = this.#authorization.header;
      const exchange = await this.#open(request, authorization, signal);
      const { response, url } = exchange;
      if (response.status !== 401 || url.origin !== this.#base.origin || logins === maxLogins) return exchange;
      const fault = await readFault(response);
      await exchange[Symbol.asyncDispose]();
      // A second login helps where the header was another request's, or had expired.
      const isRefused = logins === maxLogins - 1 && authorization === this.#authorization.header;
      if (isRefused) throw this.#authorization.denied(fault.text);
      await this.#authorization.answer(response.headers.get("www-authenticate"), authorization);
    }
  }

  async #open(request: RegistryRequest, authorization: string | undefined, signal: AbortSignal): Promise<Exchange> {
    const { method, headers, body, onSent } = request;
    const url = new URL(request.target, this.#base);
    await this.#checkReach(url);
    const exchange = await Exchange.open(
      {
        method,
        url,
        // Blobs are often on another host, behind signed URLs: it gets no login.
        headers: ({ origin }) => ({
          ...headers,
          ...(origin === this.#base.origin && authorization !== undefined && { Authorization: authorization }),
        }),
        body,
        onSent,
      },
      {
        signal,
        silenceMs: this.#silenceMs,
        maxRedirects,
        checkRedirect: (to) => this.#checkReach(to),
        failure: (from, error) => this.#failure(from, error),
        refusedRedirect: (_, why) => this.#refused(why),
      },
    );
    this.#hasAnswered = true;
    return exchange;
  }

  async #sendForToken(url: URL, init: BunFetchRequestInit): Promise<Response> {
    await this.#checkReach(url);
    const signal = AbortSignal.any([this.signal, AbortSignal.timeout(this.#silenceMs)]);
    return send(url, { ...init, signal }).catch((error: unknown) => {
      throw this.#failure(url, error);
    });
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

function contentType(response: Response): string {
  return response.headers.get("content-type") ?? "";
}

function retryAfterMs(response: Response): number {
  const text = response.headers.get("retry-after") ?? "";
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const date = Date.parse(text);
  return Number.isNaN(date) ? 0 : Math.max(0, date - Date.now());
}
