/**
 * A loopback server that does not answer until the test releases the answer. Model code that fetches its URLs waits,
 * too.
 */

export interface Hold extends AsyncDisposable {
  /** A URL whose answer waits until the test calls `release(name)`. */
  url(name: string): string;
  /** Resolves when the first request for the name has arrived. */
  arrived(name: string): Promise<void>;
  release(name: string): void;
}

interface Gate {
  readonly arrived: PromiseWithResolvers<void>;
  readonly released: PromiseWithResolvers<void>;
}

/** Starts the server. @param options.body body of every answer */
export function hold({ body = "go on" }: { readonly body?: string | Uint8Array<ArrayBuffer> } = {}): Hold {
  const gates = new Map<string, Gate>();
  const gate = (name: string): Gate => {
    const known = gates.get(name);
    if (known !== undefined) return known;
    const made = { arrived: Promise.withResolvers<void>(), released: Promise.withResolvers<void>() };
    gates.set(name, made);
    return made;
  };
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    async fetch(request) {
      const { arrived, released } = gate(new URL(request.url).pathname.slice(1));
      arrived.resolve();
      await released.promise;
      return new Response(body);
    },
  });
  return {
    url: (name) => new URL(name, server.url).href,
    arrived: (name) => gate(name).arrived.promise,
    release: (name) => gate(name).released.resolve(),
    async [Symbol.asyncDispose]() {
      for (const { released } of gates.values()) released.resolve();
      await server.stop(true);
    },
  };
}
