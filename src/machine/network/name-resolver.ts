/** Looks up host names without a thread for each, and limits concurrent look-ups. */
import { isIP } from "node:net";
import { Gate } from "../../base/collections/gate.ts";
import { raced } from "../../base/raced.ts";
import { systemText } from "../../base/system-file.ts";

/** Looks up all addresses of a name, in the order to try them. */
export type Resolver = (name: string, signal?: AbortSignal) => Promise<readonly string[]>;

/**
 * Limit of concurrent look-ups. It exceeds the limit of fetches: a name that never resolves keeps its slot for half a
 * minute, even after its caller has left.
 */
const MAX_LOOKUPS = 256;

/**
 * Looks a name up in /etc/hosts, then with c-ares, which asks the name servers without a thread. The system's
 * `getaddrinfo` would block one of the few threads that also decode pictures. c-ares gives a name of /etc/hosts the
 * addresses of other names, too, if they share one, so it reads only names that the file lacks.
 */
async function askCares(name: string): Promise<readonly string[]> {
  const listed = addressesIn(systemText("/etc/hosts"), name);
  const found = listed.length > 0 ? listed : await Bun.dns.lookup(name, { backend: "c-ares" });
  return interleaved(found.map((each) => (typeof each === "string" ? each : each.address)));
}

/** The addresses of a name in the text of /etc/hosts. */
export function addressesIn(hosts: string, name: string): string[] {
  const wanted = name.toLowerCase().replace(/\.$/, "");
  return hosts.split("\n").flatMap((line) => {
    const [address = "", ...names] = line.replace(/#.*/, "").trim().toLowerCase().split(/\s+/);
    return isIP(address) !== 0 && names.includes(wanted) ? address : [];
  });
}

/**
 * Orders addresses by turns of IPv4 and IPv6, so that a host without a route of one family needs one attempt (RFC 8305).
 * IPv4 comes first: containers often have no IPv6 route.
 */
export function interleaved(addresses: readonly string[]): string[] {
  const [first, second] = [4, 6].map((family) => addresses.filter((address) => isIP(address) === family));
  const length = Math.max(first?.length ?? 0, second?.length ?? 0);
  return Array.from({ length }, (_, i) => [first?.[i] ?? [], second?.[i] ?? []].flat()).flat();
}

interface Lookup {
  readonly addresses: Promise<readonly string[]>;
  /** Number of waiting callers. */
  callers: number;
}

export class NameResolver {
  readonly #ask: (name: string) => Promise<readonly string[]>;
  readonly #gate: Gate;
  /** Unfinished look-ups by name. All callers of a name share one look-up. */
  readonly #lookups = new Map<string, Lookup>();

  constructor({ ask = askCares, maxLookups = MAX_LOOKUPS } = {}) {
    this.#ask = ask;
    this.#gate = new Gate(maxLookups);
  }

  /** Looks a name up. @throws the signal's reason after an abort, or the error of the look-up */
  readonly resolve: Resolver = async (name, signal) => {
    const lookup = this.#lookups.get(name) ?? this.#start(name);
    lookup.callers += 1;
    try {
      return await raced(lookup.addresses, signal);
    } finally {
      lookup.callers -= 1;
    }
  };

  #start(name: string): Lookup {
    const ask = async (): Promise<readonly string[]> => {
      // The caller counts itself first.
      await undefined;
      if (lookup.callers === 0) throw new Error("all callers have left");
      return this.#ask(name);
    };
    const addresses = this.#gate.run(this, ask).finally(() => this.#lookups.delete(name));
    // The callers may have left before the look-up fails.
    addresses.catch(() => {});
    const lookup: Lookup = { addresses, callers: 0 };
    this.#lookups.set(name, lookup);
    return lookup;
  }
}

export const nameResolver = new NameResolver();
