/** A client for one repository of a registry, with login, redirects and retries (OCI distribution spec 1.1). */
import { setTimeout as sleep } from "node:timers/promises";
import { isNoFile, SconceError } from "../../base/errors.ts";
import type { Resolver } from "../../machine/network/name-resolver.ts";
import { AllowedHosts } from "./allowed-hosts.ts";
import { Authorization } from "./authorization.ts";
import { apiHostOf } from "./docker-hub.ts";
import { Exchange, fetchPlain } from "./exchange.ts";
import { connectionError, type RegistryFault, readFault } from "./fault.ts";
import type { RemoteReference } from "./remote-reference.ts";
import { Interruption, Retry } from "./retry.ts";

export interface RegistryOptions {
  readonly remote: RemoteReference;
  /** Actions for which a token is requested. */
  readonly actions: "pull" | "pull,push";
  /** Whether to use http instead of https. */
  readonly isPlain: boolean;
  readonly signal: AbortSignal;
  /** Environment variables with the paths of credential files, such as DOCKER_CONFIG. Default: `process.env`. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Delay before the first retry, in milliseconds. Default: 500. */
  readonly retryDelayMs?: number;
  /** Longest time without a byte sent or received, in milliseconds. Default: 60 000. */
  readonly silenceMs?: number;
  /** Host that serves the API. Default: the host of the reference, for Docker Hub the host of its API. */
  readonly apiHost?: string;
  /**
   * Resolves host names, to refuse URLs of a registry that lead to a private network. Default: the system's resolver.
   */
  readonly resolver?: Resolver;
}

export interface RegistryRequest {
  readonly method: "HEAD" | "GET" | "POST" | "PATCH" | "PUT";
  /** A path relative to `/v2/REPOSITORY/`, for example `manifests/v1`, or a whole URL. */
  readonly target: string | URL;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Blob | Uint8Array;
  /** Called with the number of bytes sent so far, for bodies above 1 MiB. */
  readonly onSent?: (bytes: number) => void;
  /** HTTP statuses that `read` handles. Other statuses throw. */
  readonly expected: readonly number[];
  /** Message of the error `model_not_found` for the status 404. Without it, 404 is `registry_refused`. */
  readonly missing?: string;
  /** Aborts the request. Default: the signal of the `Registry`. */
  readonly signal?: AbortSignal;
}

export interface RegistryAnswer {
  readonly status: number;
  readonly headers: Headers;
  /** URL of the answer, after redirects. A relative `Location` header is resolved against it. */
  readonly url: URL;
  chunks(): AsyncIterable<Uint8Array>;
  /** Reads the body as a registry's JSON error. */
  fault(): Promise<RegistryFault>;
}

/** Logins for one request: with an old token, with a new one, and with another new one after a pause. */
const maxLogins = 3;

export class Registry {
  readonly remote: RemoteReference;
  readonly signal: AbortSignal;
  readonly #base: URL;
  readonly #isPlain: boolean;
  readonly #authorization: Authorization;
  readonly #allowedHosts: AllowedHosts;
  readonly #retryDelayMs: number;
  readonly #silenceMs: number;
  #hasAnswered = false;

  constructor(options: RegistryOptions) {
    const { host, repository } = options.remote;
    this.remote = options.remote;
    this.signal = options.signal;
    this.#isPlain = options.isPlain;
    const apiHost = options.apiHost ?? apiHostOf(host);
    this.#base = new URL(`${this.#isPlain ? "http" : "https"}://${apiHost}/v2/${repository}/`);
    this.#allowedHosts = new AllowedHosts(this.#base.hostname, options.resolver);
    this.#retryDelayMs = options.retryDelayMs ?? 500;
    this.#silenceMs = options.silenceMs ?? 60_000;
    this.#authorization = new Authorization({
      host,
      repository,
      actions: options.actions,
      env: options.env,
      isPlain: this.#isPlain,
      send: (url, init) => this.#sendForToken(url, init),
    });
  }

  /**
   * Sends a request, with retries, and returns the result of `read`.
   * @throws SconceError `registry_unavailable`, `registry_denied`, `registry_refused`, `model_not_found`; errors of
   * `read`
   */
  async request<T>(request: RegistryRequest, read: (answer: RegistryAnswer) => T | Promise<T>): Promise<T> {
    return this.retry(request.signal).run(() => this.requestOnce(request, read));
  }

  /**
   * Sends a request once.
   * @throws Interruption if a retry may help, otherwise as `request`
   */
  async requestOnce<T>(request: RegistryRequest, read: (answer: RegistryAnswer) => T | Promise<T>): Promise<T> {
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

  /** Whether this host answers like a registry. Error messages use it to tell a missing model from a wrong host. */
  async isRegistry(): Promise<boolean> {
    const request = { method: "GET", target: new URL("/v2/", this.#base), expected: [] } as const;
    await using exchange = await this.#exchange(request, this.signal);
    const { response } = exchange;
    const isNamed = response.headers.has("docker-distribution-api-version");
    return isNamed || response.status === 401 || (response.ok && !/html/.test(contentType(response)));
  }

  /**
   * Checks a URL before a request.
   * @throws SconceError `registry_refused` if a registry in the internet leads to a private network
   */
  async #checkHost(url: URL): Promise<void> {
    if (await this.#allowedHosts.allows(url, this.signal)) return;
    throw this.#refused(`leads to ${url.host}, which is in a private network; a public registry must not`);
  }

  /**
   * Sends a request, and logs in and repeats it if the registry answers 401. If it refuses a new token, tries another
   * one after a pause.
   */
  async #exchange(request: RegistryRequest, signal: AbortSignal): Promise<Exchange> {
    /** The header of the last login; the registry has not accepted it yet. */
    let unproven: string | undefined;
    for (let logins = 0; ; logins += 1) {
      const authorization = this.#authorization.header;
      const exchange = await this.#open(request, authorization, signal);
      const { response, url } = exchange;
      if (response.status !== 401 || url.origin !== this.#base.origin) return exchange;
      const fault = await readFault(response);
      await exchange[Symbol.asyncDispose]();
      const isRefused = unproven !== undefined && authorization === unproven;
      const { hasToken } = this.#authorization;
      if (logins === maxLogins || (isRefused && (!hasToken || logins === maxLogins - 1))) {
        throw this.#authorization.denied(hasToken ? `${fault.text}, also with a second new token` : fault.text);
      }
      if (isRefused) await sleep(this.#retryDelayMs, undefined, { signal });
      await this.#authorization.renew(response.headers.get("www-authenticate"), authorization);
      unproven = this.#authorization.header;
    }
  }

  async #open(request: RegistryRequest, authorization: string | undefined, signal: AbortSignal): Promise<Exchange> {
    const { method, headers, body, onSent } = request;
    const url = new URL(request.target, this.#base);
    await this.#checkHost(url);
    const exchange = await Exchange.open(
      {
        method,
        url,
        // Only the registry itself gets the credentials. Redirects often lead to storage on another host.
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
        checkRedirect: (to) => this.#checkHost(to),
        failure: (from, error) => this.#failure(from, error),
        refusedRedirect: (why) => this.#refused(why),
      },
    );
    this.#hasAnswered = true;
    return exchange;
  }

  async #sendForToken(url: URL, init: BunFetchRequestInit): Promise<Response> {
    await this.#checkHost(url);
    const signal = AbortSignal.any([this.signal, AbortSignal.timeout(this.#silenceMs)]);
    return fetchPlain(url, { ...init, signal }).catch((error: unknown) => {
      throw this.#failure(url, error);
    });
  }

  /**
   * Converts an error of `fetch` or of a body into the error for the caller.
   * @throws the signal's reason after an abort
   */
  #failure(url: URL, error: unknown): unknown {
    this.signal.throwIfAborted();
    if (error instanceof SconceError || error instanceof Interruption) return error;
    if (isNoFile(error)) {
      return new SconceError("store_corrupt", "a file of the model was removed from the store during the upload");
    }
    const known = connectionError(url, this.#isPlain, error);
    // If the host never answered, its name or port is probably misspelled, so there is no retry.
    return this.#hasAnswered ? new Interruption(known) : known;
  }

  async #refusal({ missing }: RegistryRequest, response: Response): Promise<unknown> {
    const fault = await readFault(response);
    if (response.status === 401 || response.status === 403) return this.#authorization.denied(fault.text);
    const { host, repository } = this.remote;
    if (response.status === 429 || response.status >= 500) {
      const message = `${host} can't serve ${repository} now: ${fault.text}; try again later`;
      return new Interruption(new SconceError("registry_unavailable", message), retryAfterMs(response));
    }
    if (fault.code === undefined && response.status === 404 && !(await this.isRegistry())) {
      return this.#refused("is not a registry: it has no /v2/; check the name and the port");
    }
    if (response.status === 404 && missing !== undefined) return new SconceError("model_not_found", missing);
    return this.#refused(`refused a request for ${repository}: ${fault.text}`);
  }

  #refused(message: string): SconceError {
    return new SconceError("registry_refused", `${this.remote.host} ${message}`);
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
