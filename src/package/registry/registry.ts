/** A client for one repository of a registry, with login, redirects and retries (OCI distribution spec 1.1). */
import { isIP } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { isNoFile, SconceError } from "../../base/errors.ts";
import { isGlobalAddress } from "../../machine/network/address-guard.ts";
import { nameResolver, type Resolver } from "../../machine/network/name-resolver.ts";
import { redirectStatuses } from "../../machine/network/redirects.ts";
import { Authorization } from "./authorization.ts";
import { fetchPlain, RegistryAnswer, SilenceLimit } from "./exchange.ts";
import { connectionError } from "./fault.ts";
import { apiHostOf, type RemoteReference } from "./remote-reference.ts";
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

/** Logins for one request: with a new token, and with another new one after a pause. */
const maxLogins = 2;
const maxRedirects = 5;
/** Fewest bytes of a body whose sending is reported. */
const largeBytes = 1024 * 1024;
/** After a large body, the silence limit is longer by this factor: the registry hashes the blob before it answers. */
const ANSWER_SILENCES = 10;

export class Registry {
  readonly remote: RemoteReference;
  readonly signal: AbortSignal;
  readonly #base: URL;
  readonly #isPlain: boolean;
  readonly #authorization: Authorization;
  readonly #resolver: Resolver;
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
    this.#resolver = options.resolver ?? nameResolver.resolve;
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
    await using answer = await this.#authorized(request, request.signal ?? this.signal);
    if (!request.expected.includes(answer.status)) throw await this.#refusal(request, answer);
    return await read(answer);
  }

  retry(signal = this.signal): Retry {
    return new Retry({ signal, firstDelayMs: this.#retryDelayMs });
  }

  /**
   * Sends a request, and logs in and repeats it if the registry answers 401. If it refuses a new token, tries another
   * one after a pause: a registry may refuse a new token until all its hosts know it.
   */
  async #authorized(request: RegistryRequest, signal: AbortSignal): Promise<RegistryAnswer> {
    for (let logins = 0; ; logins += 1) {
      const { header, hasToken } = this.#authorization;
      const answer = await this.#open(request, header, signal);
      if (answer.status !== 401 || answer.url.origin !== this.#base.origin) return answer;
      await using refused = answer;
      const { text } = await refused.fault();
      if (logins === maxLogins) throw this.#authorization.denied(`${text}, also with a second new token`);
      if (logins > 0 && !hasToken) throw this.#authorization.denied(text);
      if (logins > 0) await sleep(this.#retryDelayMs, undefined, { signal });
      await this.#authorization.renew(refused.headers.get("www-authenticate"), header);
    }
  }

  /** Sends a request and follows redirects. */
  async #open(request: RegistryRequest, header: string | undefined, signal: AbortSignal): Promise<RegistryAnswer> {
    const { method, body } = request;
    const large = body instanceof Blob && body.size > largeBytes ? body : undefined;
    const limit = new SilenceLimit(signal, this.#silenceMs);
    let url = new URL(request.target, this.#base);
    try {
      for (let redirects = 0; ; redirects += 1) {
        await this.#checkHost(url);
        const response = await this.#reached(url, {
          method,
          headers: {
            ...request.headers,
            ...(large !== undefined && { "Content-Length": String(large.size) }),
            // Only the registry itself gets the credentials. Redirects often lead to storage on another host.
            ...(header !== undefined && url.origin === this.#base.origin && { Authorization: header }),
          },
          ...(body !== undefined && { body: large === undefined ? body : reported(large, limit, request.onSent) }),
          signal: limit.signal,
        });
        this.#hasAnswered = true;
        const location = response.headers.get("location");
        if (!redirectStatuses.has(response.status) || location === null) {
          return new RegistryAnswer({ response, url, limit, failure: (error) => this.#failure(url, error) });
        }
        await response.body?.cancel();
        if (redirects === maxRedirects) throw this.#refused(`redirects more than ${maxRedirects} times`);
        url = safeUrl(location, url) ?? this.#refuse("redirects to a URL without https");
      }
    } catch (error) {
      limit.end();
      throw error;
    }
  }

  async #sendForToken(url: URL, init: BunFetchRequestInit): Promise<Response> {
    await this.#checkHost(url);
    return this.#reached(url, {
      ...init,
      signal: AbortSignal.any([this.signal, AbortSignal.timeout(this.#silenceMs)]),
    });
  }

  #reached(url: URL, init: BunFetchRequestInit): Promise<Response> {
    return fetchPlain(url, init).catch((error: unknown) => {
      throw this.#failure(url, error);
    });
  }

  /**
   * Checks the host of a URL that the registry sent: a redirect, token server or upload location.
   * @throws SconceError `registry_refused` if a registry in the internet leads to a private network
   */
  async #checkHost({ hostname, host }: URL): Promise<void> {
    const own = this.#base.hostname;
    if (hostname === own || (await this.#addressesOf(hostname)).every(isGlobalAddress)) return;
    const addresses = await this.#addressesOf(own);
    if (addresses.length > 0 && !addresses.some(isGlobalAddress)) return;
    throw this.#refused(`leads to ${host}, which is in a private network; a public registry must not`);
  }

  /** IP addresses of a host; empty if the name cannot be resolved, because only a proxy can reach such a host. */
  async #addressesOf(hostname: string): Promise<readonly string[]> {
    const literal = hostname.replace(/^\[(.*)\]$/, "$1");
    if (isIP(literal) !== 0) return [literal];
    const addresses = await this.#resolver(hostname, this.signal).catch(() => []);
    this.signal.throwIfAborted();
    return addresses;
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

  async #refusal({ missing }: RegistryRequest, answer: RegistryAnswer): Promise<unknown> {
    const { status } = answer;
    const fault = await answer.fault();
    if (status === 401 || status === 403) return this.#authorization.denied(fault.text);
    const { host, repository } = this.remote;
    if (status === 429 || status >= 500) {
      const message = `${host} can't serve ${repository} now: ${fault.text}; try again later`;
      return new Interruption(new SconceError("registry_unavailable", message), retryAfterMs(answer.headers));
    }
    if (status === 404 && missing !== undefined) {
      const fix = fault.code === undefined ? "; if this host is no registry, check its name and the port" : "";
      return new SconceError("model_not_found", missing + fix);
    }
    return this.#refused(`refused a request for ${repository}: ${fault.text}`);
  }

  #refused(message: string): SconceError {
    return new SconceError("registry_refused", `${this.remote.host} ${message}`);
  }

  #refuse(message: string): never {
    throw this.#refused(message);
  }
}

/** Resolves a `Location` header. @returns undefined for a URL that is invalid or leaves https */
export function safeUrl(location: string | null, base: URL): URL | undefined {
  const url = location === null ? null : URL.parse(location, base.href);
  return url?.protocol === "https:" || (url?.protocol === "http:" && base.protocol === "http:") ? url : undefined;
}

/** A stream of a body that reports each sent chunk. */
function reported(body: Blob, limit: SilenceLimit, onSent: RegistryRequest["onSent"]): ReadableStream<Uint8Array> {
  let sentBytes = 0;
  const count = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      controller.enqueue(chunk);
      sentBytes += chunk.length;
      onSent?.(sentBytes);
      limit.touch(sentBytes < body.size ? 1 : ANSWER_SILENCES);
    },
  });
  return body.stream().pipeThrough(count);
}

function retryAfterMs(headers: Headers): number {
  const text = headers.get("retry-after") ?? "";
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const date = Date.parse(text);
  return Number.isNaN(date) ? 0 : Math.max(0, date - Date.now());
}
