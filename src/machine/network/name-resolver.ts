/** Looks host names up without a thread for each, so many at once, and lets go of a look-up whose caller gave up. */

/** All addresses of a name, in the order in which they are to be tried. */
export type Resolver = (name: string, signal?: AbortSignal) => Promise<readonly string[]>;

/** More than all fetches that go on at once: a name that never resolves holds its place for half a minute, whoever gave it up. */
const MAX_LOOKUPS = 256;

/**
 * c-ares asks the name servers itself, and reads /etc/hosts first. The system's `getaddrinfo` holds a thread of Bun's pool until it has
 * an answer; decoding pictures needs the same few threads.
 */
async function askCares(name: string): Promise<readonly string[]> {
  const found = await Bun.dns.lookup(name, { backend: "c-ares" });
  // IPv4 first: a container often has no IPv6 route, and trying one can cost the whole time limit.
  return found.toSorted((a, b) => a.family - b.family).map(({ address }) => address);
}

export class NameResolver {
  readonly #ask: (name: string) => Promise<readonly string[]>;
  readonly #maxLookups: number;
  /** By name: whoever asks for a name that is being looked up waits for the same answer. */
  readonly #running = new Map<string, Promise<readonly string[]>>();
  /** Those that wait for a place, in order. */
  readonly #waiting = new Set<() => void>();

  constructor({ ask = askCares, maxLookups = MAX_LOOKUPS } = {}) {
    this.#ask = ask;
    this.#maxLookups = maxLookups;
  }

  /** Look-ups that go on, and callers that wait for one to end. */
  get load(): { readonly running: number; readonly waiting: number } {
    return { running: this.#running.size, waiting: this.#waiting.size };
  }

  /** @throws the signal's reason when that is aborted; what the look-up fails with */
  readonly resolve: Resolver = async (name, signal) => {
    let asked: Promise<readonly string[]>;
    try {
      while (!this.#running.has(name) && !this.#hasPlace) await this.#place(signal);
      signal?.throwIfAborted();
      asked = this.#running.get(name) ?? this.#start(name);
    } finally {
      // Whoever was called and gave up, or found its name looked up by another, takes no place.
      this.#callNext();
    }
    return raced(asked, signal);
  };

  get #hasPlace(): boolean {
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

  /** Each is called once: several look-ups may end before the first that was called goes on. */
  #callNext(): void {
    const [next] = this.#waiting;
    if (next === undefined || !this.#hasPlace) return;
    this.#waiting.delete(next);
    next();
  }

  /** Resolves when a look-up has ended. */
  async #place(signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    try {
      await raced(promise, signal);
    } finally {
      this.#waiting.delete(resolve);
    }
  }
}

/** A promise's value, or the signal's reason if that comes first. */
async function raced<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** One for the process: the threads and the name servers are the process's too. */
export const nameResolver = new NameResolver();
