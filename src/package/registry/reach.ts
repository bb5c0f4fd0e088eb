/** Decides where a registry may send its clients: a public registry never into a private network. */
import { isIP } from "node:net";
import { isGlobalAddress } from "../../machine/network/address-guard.ts";
import { nameResolver, type Resolver } from "../../machine/network/name-resolver.ts";

export class Reach {
  readonly #hostname: string;
  readonly #resolver: Resolver;
  #isFree: Promise<boolean> | undefined;

  /** @param hostname of the registry, as `URL.hostname` gives it */
  constructor(hostname: string, resolver: Resolver = nameResolver.resolve) {
    this.#hostname = hostname;
    this.#resolver = resolver;
  }

  /** Whether the registry may name this URL in a redirect, as its token server or as the place of an upload. */
  async includes(url: URL, signal: AbortSignal): Promise<boolean> {
    if (url.hostname === this.#hostname) return true;
    const addresses = await this.#addressesOf(url.hostname, signal);
    if (addresses.every(isGlobalAddress)) return true;
    this.#isFree ??= this.#isPrivate(signal);
    return this.#isFree;
  }

  async #isPrivate(signal: AbortSignal): Promise<boolean> {
    const addresses = await this.#addressesOf(this.#hostname, signal);
    return addresses.length > 0 && !addresses.some(isGlobalAddress);
  }

  /** None for a name that this machine does not know: then a proxy connects, or nobody. */
  async #addressesOf(hostname: string, signal: AbortSignal): Promise<readonly string[]> {
    const literal = hostname.replace(/^\[(.*)\]$/, "$1");
    if (isIP(literal) !== 0) return [literal];
    const addresses = await this.#resolver(hostname, signal).catch(() => []);
    signal.throwIfAborted();
    return addresses;
  }
}
