/** Sends requests to URLs that clients name, but only to addresses that the address guard allows. */

import { codeOf } from "../../base/errors.ts";
import type { AddressGuard } from "./address-guard.ts";
import { HostSessions } from "./host-sessions.ts";

export interface GuardedRequest {
  readonly signal: AbortSignal;
  readonly method?: "GET" | "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Codes of connection errors, after which the next address of the host is tried. */
const unreachable = new Set([
  "ECONNREFUSED",
  "ConnectionRefused",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ETIMEDOUT",
  "EADDRNOTAVAIL",
  "EAFNOSUPPORT",
  "FailedToOpenSocket",
]);
const maxAddresses = 3;

/**
 * Sends requests without redirects. Looks each name up once and connects to the checked address. Ignores proxy
 * variables, because a proxy would connect to unchecked addresses.
 */
export class GuardedRequests implements Disposable {
  readonly #guard: AddressGuard;
  readonly #ca: string | undefined;
  readonly #sessions = new HostSessions();

  /** @param ca trusted certificates in PEM; they replace the built-in list */
  constructor(guard: AddressGuard, ca?: string) {
    this.#guard = guard;
    this.#ca = ca;
  }

  /**
   * Sends a request. If an address cannot be reached, tries the next address of the host, at most three.
   * @throws SconceError of the address guard, or the error of the last address
   */
  async send(url: URL, request: GuardedRequest): Promise<Response> {
    const addresses = (await this.#guard.resolveAll(url.hostname, request.signal)).slice(0, maxAddresses);
    for (const address of addresses.slice(0, -1)) {
      request.signal.throwIfAborted();
      try {
        return await this.#connect(url, address, request);
      } catch (error) {
        if (!unreachable.has(codeOf(error))) throw error;
      }
    }
    request.signal.throwIfAborted();
    return this.#connect(url, addresses.at(-1) ?? "", request);
  }

  /** Closes idle connections. */
  [Symbol.dispose](): void {
    this.#sessions[Symbol.dispose]();
  }

  #connect(url: URL, address: string, request: GuardedRequest): Promise<Response> {
    const host = address.includes(":") ? `[${address}]` : address;
    const port = url.port === "" ? "" : `:${url.port}`;
    return this.#sessions.of(url).fetch(`${url.protocol}//${host}${port}${url.pathname}${url.search}`, {
      ...request,
      headers: { ...request.headers, Host: url.host },
      redirect: "manual",
      decompress: false,
      proxy: false,
      ...(url.protocol === "https:" && { tls: this.#tls(url, address) }),
    });
  }

  /** TLS options that check the certificate against the name in the URL, not the address. */
  #tls(url: URL, address: string): Bun.TLSOptions {
    const isName = url.hostname.replace(/^\[(.*)\]$/, "$1") !== address;
    return {
      rejectUnauthorized: true,
      ...(isName && { serverName: url.hostname.replace(/\.$/, "") }),
      ...(this.#ca !== undefined && { ca: this.#ca }),
    };
  }
}
