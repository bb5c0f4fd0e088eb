/** Decides which addresses the server may connect to on behalf of a client. */
import { isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { SconceError } from "../../base/errors.ts";
import { nameResolver, type Resolver } from "./name-resolver.ts";

export interface AddressGuardOptions {
  /** Lets every address pass, for a server that is meant to read from its own network; off by default. */
  readonly allowPrivate?: boolean;
  /** Which addresses may be connected to when private ones may not; `isGlobalAddress` by default. */
  readonly isAllowed?: (address: string) => boolean;
  /** By default that of the process, which reads /etc/hosts and asks the name servers. */
  readonly resolver?: Resolver;
}

const onlyWhenAllowed = "private ones are taken only with --allow-private-urls";

export class AddressGuard {
  readonly allowPrivate: boolean;
  readonly #isAllowed: (address: string) => boolean;
  readonly #resolver: Resolver;

  constructor(options: AddressGuardOptions = {}) {
    this.allowPrivate = options.allowPrivate ?? false;
    this.#isAllowed = this.allowPrivate ? () => true : (options.isAllowed ?? isGlobalAddress);
    this.#resolver = options.resolver ?? nameResolver.resolve;
  }

  /**
   * Every address of the host of a URL that may be connected to, in the order in which to try them. The name is looked up once, here;
   * connecting to what this returns, and to nothing else, is what makes the check hold. Those that may not are left out: a host with a
   * public and a private address is public.
   *
   * @param hostname as `URL.hostname` gives it: a name, an IPv4 address, or an IPv6 address in brackets
   * @param signal gives the look-up up
   * @throws SconceError `file_refused` for an address that is not public, `file_unavailable` for a name without a public one; the
   * signal's reason
   */
  async resolveAll(hostname: string, signal?: AbortSignal): Promise<string[]> {
    const literal = this.literal(hostname);
    if (literal !== undefined) return [literal];
    const addresses = await this.#lookup(hostname, signal);
    const allowed = addresses.filter(this.#isAllowed);
    if (allowed.length > 0) return allowed;
    throw this.#noAddress(hostname, new Error(`${hostname} has these addresses alone: ${addresses.join(", ")}`));
  }

  /**
   * The host of a URL, as `resolveAll` takes it, where it is an address; undefined for a name, of which nothing is known yet.
   * @throws SconceError `file_refused` for an address that is not public
   */
  literal(hostname: string): string | undefined {
    const literal = hostname.replace(/^\[(.*)\]$/, "$1");
    if (isIP(literal) === 0) return undefined;
    if (this.#isAllowed(literal)) return literal;
    throw new SconceError("file_refused", `the host ${literal} has no public address; ${onlyWhenAllowed}`);
  }

  async #lookup(name: string, signal: AbortSignal | undefined): Promise<readonly string[]> {
    try {
      return await this.#resolver(name, signal);
    } catch (error) {
      signal?.throwIfAborted();
      throw this.#noAddress(name, error);
    }
  }

  /** One error for names that are not found and for internal ones: which of them there are is not the client's business. `cause` says it. */
  #noAddress(name: string, cause: unknown): SconceError {
    const shown = name.length > 100 ? `${name.slice(0, 100)}…` : name;
    const message = this.allowPrivate
      ? `the host ${shown} was not found`
      : `the host ${shown} was not found or has no public address; ${onlyWhenAllowed}`;
    return new SconceError("file_unavailable", message, { cause });
  }
}

/** IANA's allocation of global unicast addresses; all else (mapped, compatible, NAT64, local, reserved) lies outside it. */
const globalIpv6 = ipaddr.parseCIDR("2000::/3");

/**
 * Whether an address can be reached from the whole Internet: not loopback, private, link-local, carrier-grade NAT, multicast,
 * broadcast, unspecified, documentation, benchmarking, reserved, nor one that carries an IPv4 address (mapped, compatible, NAT64,
 * 6to4, Teredo), which a gateway could turn into any of these. Follows IANA's special-purpose address registries.
 */
export function isGlobalAddress(address: string): boolean {
  // Only the plain spelling: ipaddr.js would also read octal and hexadecimal parts, which others read differently.
  if (isIP(address) === 0) return false;
  const parsed = ipaddr.parse(address);
  if (parsed.kind() === "ipv6" && !parsed.match(globalIpv6)) return false;
  return parsed.range() === "unicast";
}
