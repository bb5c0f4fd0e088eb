/** Decides to which hosts a registry may send clients. A public registry must not send them to a private network. */
import { isIP } from "node:net";
import { isGlobalAddress } from "../../machine/network/address-guard.ts";
import { nameResolver, type Resolver } from "../../machine/network/name-resolver.ts";

export class AllowedHosts {
  readonly #registry: string;
  readonly #resolver: Resolver;
  #isRegistryPrivate: Promise<boolean> | undefined;

  /** @param registry host name of the registry (`URL.hostname`) */
  constructor(registry: string, resolver: Resolver = nameResolver.resolve) {
    this.#registry = registry;
    this.#resolver = resolver;
  }

  /** Whether the registry may use this URL as redirect, token server or upload location. */
  async allows(url: URL, signal: AbortSignal): Promise<boolean> {
    if (url.hostname === this.#registry) return true;
    const addresses = await this.#addressesOf(url.hostname, signal);
    if (addresses.every(isGlobalAddress)) return true;
    this.#isRegistryPrivate ??= this.#addressesOf(this.#registry, signal).then(
      (own) => own.length > 0 && !own.some(isGlobalAddress),
    );
    return this.#isRegistryPrivate;
  }

  /** Addresses of a host. Empty for an unknown name, which only a proxy can reach. */
  async #addressesOf(hostname: string, signal: AbortSignal): Promise<readonly string[]> {
    const literal = hostname.replace(/^\[(.*)\]$/, "$1");
    if (isIP(literal) !== 0) return [literal];
    const addresses = await this.#resolver(hostname, signal).catch(() => []);
    signal.throwIfAborted();
    return addresses;
  }
}
