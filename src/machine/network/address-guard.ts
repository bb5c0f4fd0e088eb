/** Checks the addresses of URLs that clients or registries send, before a connection to them. */
import { isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { SconceError } from "../../base/errors.ts";
import { nameResolver, type Resolver } from "./name-resolver.ts";

export interface AddressGuardOptions {
  /** Allows all addresses, for servers that fetch from a private network. Default: false. */
  readonly allowPrivate?: boolean;
  /** Whether an address is allowed, unless `allowPrivate` is set. Default: `isGlobalAddress`. */
  readonly isAllowed?: (address: string) => boolean;
  /** Looks host names up. Default: /etc/hosts and the name servers. */
  readonly resolver?: Resolver;
}

const onlyWhenAllowed = "private addresses need --allow-private-urls";

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
   * Looks a host up once and returns its allowed addresses, in the order to try them. Callers must connect only to
   * these addresses, because a second look-up could return others.
   * @param hostname `URL.hostname`: a name, an IPv4 address, or an IPv6 address in brackets
   * @param signal cancels the look-up
   * @throws SconceError `file_refused` for a private address, `file_unavailable` for a name without a public address;
   * the signal's reason
   */
  async resolveAll(hostname: string, signal?: AbortSignal): Promise<string[]> {
    const literal = this.literal(hostname);
    if (literal !== undefined) return [literal];
    const addresses = await this.#lookup(hostname, signal);
    const allowed = addresses.filter(this.#isAllowed);
    if (allowed.length > 0) return allowed;
    throw this.#noAddress(hostname, new Error(`${hostname} has only these addresses: ${addresses.join(", ")}`));
  }

  /**
   * The address in `hostname`; undefined if `hostname` is a name.
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

  /**
   * The error for an unknown name, or for a name with private addresses only. The message does not say which, so that clients
   * cannot probe for internal names; `cause` does.
   */
  #noAddress(name: string, cause: unknown): SconceError {
    const shown = name.length > 100 ? `${name.slice(0, 100)}…` : name;
    const message = this.allowPrivate
      ? `the host ${shown} was not found`
      : `the host ${shown} was not found or has no public address; ${onlyWhenAllowed}`;
    return new SconceError("file_unavailable", message, { cause });
  }
}

/** IANA's block of global unicast addresses. IPv4-mapped, local and reserved addresses lie outside it. */
const globalIpv6 = ipaddr.parseCIDR("2000::/3");
/** The well-known prefix of NAT64 (RFC 6052): the last 32 bits are an IPv4 address, to which a gateway translates. */
const nat64 = ipaddr.parseCIDR("64:ff9b::/96");
/** Blocks inside special ranges that IANA's registries call globally reachable. */
const globalBlocks = [
  ...["192.0.0.9/32", "192.0.0.10/32", "192.31.196.0/24", "192.52.193.0/24", "192.175.48.0/24"],
  ...["2001:1::1/128", "2001:1::2/128", "2001:1::3/128", "2001:3::/32", "2001:4:112::/48", "2001:20::/28"],
  ...["2001:30::/28", "2620:4f:8000::/48"],
].map((block) => ipaddr.parseCIDR(block));

/**
 * Whether an address is public by IANA's special-purpose address registries. Loopback, private, link-local,
 * carrier-grade NAT, multicast, broadcast, documentation and reserved addresses are not public. An address of NAT64 is
 * public if the IPv4 address in it is. Other IPv6 addresses that contain an IPv4 address (mapped, 6to4, Teredo) count
 * as private, since a gateway could translate them.
 */
export function isGlobalAddress(address: string): boolean {
  // `isIP` excludes octal and hexadecimal parts, which ipaddr.js accepts and other programs read differently.
  if (isIP(address) === 0) return false;
  const parsed = ipaddr.parse(address);
  if (isWithin(parsed, nat64)) return isGlobalAddress(parsed.toByteArray().slice(-4).join("."));
  if (globalBlocks.some((block) => isWithin(parsed, block))) return true;
  if (parsed.kind() === "ipv6" && !parsed.match(globalIpv6)) return false;
  return parsed.range() === "unicast";
}

function isWithin(address: ipaddr.IPv4 | ipaddr.IPv6, block: [ipaddr.IPv4 | ipaddr.IPv6, number]): boolean {
  return address.kind() === block[0].kind() && address.match(block);
}
