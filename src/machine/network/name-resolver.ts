/** Looks up host names without a thread for each, and limits concurrent look-ups. */
import { isIP } from "node:net";
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

export class NameResolver {
  readonly #ask: (name: string) => Promise<readonly string[]>;
  readonly #maxLookups: number;
  /** Running look-ups by name. All callers of a name share one look-up. */
  readonly #running = new Map<string, Promise<readonly string[]>>();
  /** Functions that wake callers who wait for a slot, in order. */
  readonly #waiting = new Set<() => void>();

  constructor({ ask = askCares, maxLookups = MAX_LOOKUPS } = {}) {
    this.#ask = ask;
    this.#maxLookups = maxLookups;
  }

  get load(): { readonly running: number; readonly waiting: number } {
    return { running: this.#running.size, waiting: this.#waiting.size };
  }

  /** Looks a name up, in a free slot. @throws the signal's reason after an abort, or the error of the look-up */
  readonly resolve: Resolver = async (name, signal) => {
    let asked: Promise<readonly string[]>;
    try {
      while (!this.#running.has(name) && !this.#hasSlot) await this.#slot(signal);
      signal?.throwIfAborted();
      asked = this.#running.get(name) ?? this.#start(name);
    } finally {
      // A caller that was aborted, or joined a running look-up, uses no slot, so the next caller gets it.
      this.#callNext();
    }
    return raced(asked, signal);
  };

  get #hasSlot(): boolean {
    return this.#running.size < this.#maxLookups;
  }

  #start(name: string): Promise<readonly string[]> {
    const asked = this.#ask(name).finally(() => {
      this.#running.delete(name);
      this.#callNext();
    });
    this.#running.set(name, asked);
    return asked;
  }

  /**
   * Wakes the next caller if a slot is free. Removes it from the queue first, because more look-ups may end before it
   * runs.
   */
  #callNext(): void {
    const [next] = this.#waiting;
    if (next === undefined || !this.#hasSlot) return;
    this.#waiting.delete(next);
    next();
  }

  /** Waits until a slot is free. @throws the signal's reason after an abort */
  async #slot(signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    try {
      await raced(promise, signal);
    } finally {
      this.#waiting.delete(resolve);
    }
  }
}

export const nameResolver = new NameResolver();
