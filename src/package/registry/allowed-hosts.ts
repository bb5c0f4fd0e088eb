/**
 * Decides to which other hosts a registry may send its client. A registry in the internet must not send the client to a
 * private network.
 */
import { isIP } from "node:net";
import { isGlobalAddress } from "../../machine/network/address-guard.ts";
import { nameResolver, type Resolver } from "../../machine/network/name-resolver.ts";

export class AllowedHosts {
  readonly #registryHost: string;
  readonly #resolver: Resolver;
  #isRegistryPrivate: Promise<boolean> | undefined;

  constructor(registryHost: string, resolver: Resolver = nameResolver.resolve) {
    this.#registryHost = registryHost;
    this.#resolver = resolver;
  }

  /** Whether the client may follow a URL that the registry sent: a redirect, token server or upload location. */
  async allows(url: URL, signal: AbortSignal): Promise<boolean> {
    if (url.hostname === this.#registryHost) return true;
    const addresses = await this.#addressesOf(url.hostname, signal);
    if (addresses.every(isGlobalAddress)) return true;
    this.#isRegistryPrivate ??= this.#addressesOf(this.#registryHost, signal).then(
      (own) => own.length > 0 && !own.some(isGlobalAddress),
    );
    return this.#isRegistryPrivate;
  }

  /**
   * IP addresses of a host; empty if the name cannot be resolved. `allows` accepts such a host, because only a proxy
   * can reach it.
   */
  async #addressesOf(hostname: string, signal: AbortSignal): Promise<readonly string[]> {
    const literal = hostname.replace(/^\[(.*)\]$/, "$1");
    if (isIP(literal) !== 0) return [literal];
    const addresses = await this.#resolver(hostname, signal).catch(() => []);
    signal.throwIfAborted();
    return addresses;
  }
}
