/** Checks the addresses of URLs that clients name, before the server connects. */
import { isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { SconceError } from "../../base/errors.ts";
import { nameResolver, type Resolver } from "./name-resolver.ts";

export interface AddressGuardOptions {
  /** Allows all addresses, for servers that read from their own network (default: false). */
  readonly allowPrivate?: boolean;
  /** Decides about an address unless all are allowed (default: `isGlobalAddress`). */
  readonly isAllowed?: (address: string) => boolean;
  /** The default reads /etc/hosts and asks the name servers. */
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
   * Looks a host up once and returns its allowed addresses, in the order to try them. Callers must connect to these
   * addresses only: a second look-up could return others. A host with a public and a private address is public.
   *
   * @param hostname `URL.hostname`: a name, an IPv4 address, or an IPv6 address in brackets
   * @param signal cancels the look-up
   * @throws SconceError `file_refused` for a private address, `file_unavailable` for a name without a public address; the
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
   * The address in a URL's host; undefined for a name.
   * @throws SconceError `file_refused` for a private address
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

  /** The same error for unknown and for internal names, so that clients cannot probe for internal names. `cause` has the reason. */
  #noAddress(name: string, cause: unknown): SconceError {
    const shown = name.length > 100 ? `${name.slice(0, 100)}…` : name;
    const message = this.allowPrivate
      ? `the host ${shown} was not found`
      : `the host ${shown} was not found or has no public address; ${onlyWhenAllowed}`;
    return new SconceError("file_unavailable", message, { cause });
  }
}

/** IANA's allocation of global unicast addresses. Mapped, NAT64, local and reserved addresses lie outside it. */
const globalIpv6 = ipaddr.parseCIDR("2000::/3");

/**
 * Whether an address is public by IANA's special-purpose address registries. Refused are loopback, private, link-local,
 * carrier-grade NAT, multicast, broadcast, documentation and reserved addresses. IPv6 addresses that carry an IPv4
 * address (mapped, NAT64, 6to4, Teredo) are refused too, since a gateway could translate them.
 */
export function isGlobalAddress(address: string): boolean {
  // ipaddr.js also accepts octal and hexadecimal parts, which other programs read differently.
  if (isIP(address) === 0) return false;
  const parsed = ipaddr.parse(address);
  if (parsed.kind() === "ipv6" && !parsed.match(globalIpv6)) return false;
  return parsed.range() === "unicast";
}
