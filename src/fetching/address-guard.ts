/** Decides which addresses the server may connect to on behalf of a client. */
import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { messageOf, SconceError } from "../errors.ts";

/** All addresses of a name, in the order in which they are to be tried. */
export type Resolver = (name: string) => Promise<readonly string[]>;

export interface AddressGuardOptions {
  /** Lets every address pass, for a server that is meant to read from its own network; off by default. */
  readonly allowPrivate?: boolean;
  /** Which addresses may be connected to when private ones may not; `isGlobalAddress` by default. */
  readonly isAllowed?: (address: string) => boolean;
  /** The system's resolver by default. */
  readonly resolver?: Resolver;
}

export class AddressGuard {
  readonly allowPrivate: boolean;
  readonly #isAllowed: (address: string) => boolean;
  readonly #resolver: Resolver;

  constructor(options: AddressGuardOptions = {}) {
    this.allowPrivate = options.allowPrivate ?? false;
    this.#isAllowed = this.allowPrivate ? () => true : (options.isAllowed ?? isGlobalAddress);
    this.#resolver = options.resolver ?? systemResolver;
  }

  /**
   * The address to connect to for the host of a URL. The name is looked up once, here; connecting to what this returns, and to
   * nothing else, is what makes the check hold.
   *
   * @param hostname as `URL.hostname` gives it: a name, an IPv4 address, or an IPv6 address in brackets
   * @throws SconceError `file_refused` when it has no public address, `file_unavailable` when the name can't be looked up
   */
  async resolve(hostname: string): Promise<string> {
    const [first] = await this.resolveAll(hostname);
    return first;
  }

  /**
   * Every address of the host that may be connected to, in the order in which to try them. Those that may not are left out:
   * a host with a public and a private address is public.
   *
   * @throws SconceError as `resolve` does
   */
  async resolveAll(hostname: string): Promise<[string, ...string[]]> {
    const literal = hostname.replace(/^\[(.*)\]$/, "$1");
    const addresses = isIP(literal) === 0 ? await this.#lookup(hostname) : [literal];
    const [first, ...others] = addresses.filter(this.#isAllowed);
    if (first !== undefined) return [first, ...others];
    // The address itself is not told: which private addresses a name has is not the client's business.
    throw new SconceError(
      "file_refused",
      `the host ${shorten(hostname)} has no public address; private ones are taken only with --allow-private-urls`,
    );
  }

  async #lookup(name: string): Promise<readonly string[]> {
    try {
      const addresses = await this.#resolver(name);
      if (addresses.length > 0) return addresses;
    } catch (error) {
      throw notFound(name, error);
    }
    throw notFound(name);
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

/** IPv4 first: a container often has no IPv6 route, and trying one can cost the whole time limit. */
const systemResolver: Resolver = async (name) => {
  const found = await lookup(name, { all: true, order: "ipv4first" });
  return found.map(({ address }) => address);
};

function notFound(name: string, cause?: unknown): SconceError {
  const why = cause === undefined ? "" : ` (${codeOf(cause)})`;
  return new SconceError("file_unavailable", `the host ${shorten(name)} was not found${why}`, { cause });
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : messageOf(error);
}

function shorten(name: string): string {
  return name.length > 100 ? `${name.slice(0, 100)}…` : name;
}
