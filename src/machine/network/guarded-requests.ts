/** Sends requests to URLs that clients name, but only to addresses that the address guard allows. */
import { once } from "node:events";
import { connect, isIP } from "node:net";
import type { AddressGuard } from "./address-guard.ts";
import { HostSessions } from "./host-sessions.ts";

export interface GuardedRequest {
  readonly signal: AbortSignal;
  readonly method?: "GET" | "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

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
   * Sends a request to the first address of the host that accepts a connection.
   * @throws SconceError of the address guard, the error of the last address, or the signal's reason
   */
  async send(url: URL, request: GuardedRequest): Promise<Response> {
    const { signal } = request;
    const addresses = await this.#guard.resolveAll(url.hostname, signal);
    const [only = "", ...others] = addresses;
    if (others.length === 0) return this.#connect(url, only, request);
    const port = Number(url.port) || (url.protocol === "https:" ? 443 : 80);
    return this.#connect(url, await firstConnected(addresses, port, signal), request);
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

/** Milliseconds before the next address is tried beside those that have not answered, as RFC 8305 recommends. */
const ATTEMPT_MS = 250;

/** The address that accepts a connection first (RFC 8305, "Happy Eyeballs"). Closes the connection again. */
async function firstConnected(addresses: readonly string[], port: number, signal: AbortSignal): Promise<string> {
  const found = addresses.map((address) => ({ address, family: isIP(address) }));
  const socket = connect({
    host: "a name whose addresses are known",
    port,
    lookup: (_name, _options, answer) => answer(null, found),
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: ATTEMPT_MS,
  });
  try {
    await once(socket, "connect", { signal });
    return socket.remoteAddress ?? "";
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    socket.destroy();
  }
}
