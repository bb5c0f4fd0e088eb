/** The port of `sconce dev`. It stays open while HTTP processes are replaced, so clients never see a closed port. */
import type { ServeConfig } from "../../../server/config.ts";
import { Listener } from "../../../server/http/listener.ts";
import { createStartingApp, Lifecycle } from "../../../server/http/routes/health.ts";
import { withContext } from "../../../server/http/with-context.ts";

/** Forwards requests to an HTTP process. */
export class FrontDoor {
  /** Path of the Unix socket on which the HTTP process listens. */
  readonly #socket: string;
  readonly #unanswered = new Set<Promise<Response>>();

  constructor(socket: string) {
    this.#socket = socket;
  }

  async forward(request: Request): Promise<Response> {
    const { pathname, search } = new URL(request.url);
    const { method, headers, body, signal } = request;
    const answer = fetch(`http://front${pathname}${search}`, {
      unix: this.#socket,
      method,
      headers,
      body,
      signal,
      redirect: "manual",
      decompress: false,
    });
    this.#unanswered.add(answer);
    try {
      return await answer;
    } finally {
      this.#unanswered.delete(answer);
    }
  }

  /** Resolves when all current requests are answered. */
  async quiet(): Promise<void> {
    await Promise.allSettled(this.#unanswered);
  }
}

export class DevPort {
  readonly url: URL;
  /** Forwards to the current HTTP process. While it is undefined, clients get 503 with `Retry-After`. */
  door: FrontDoor | undefined;
  readonly #listener: Listener;

  /** Opens the port. @throws SconceError `address_in_use` */
  constructor(config: ServeConfig) {
    const unready = withContext(createStartingApp(new Lifecycle(), { name: "sconce dev" }).fetch, {
      accessLog: config.accessLog,
    });
    this.#listener = new Listener(config, async (request) => {
      if (this.door === undefined) return unready(request);
      // Sets no time limit here, because the HTTP process has one.
      this.#listener.timeout(request, 0);
      try {
        return await this.door.forward(request);
      } catch (error) {
        if (request.signal.aborted) throw error;
        // The HTTP process has ended, and a new one starts.
        return unready(request);
      }
    });
    this.url = this.#listener.url;
  }

  get port(): number {
    return this.#listener.port;
  }

  stop(): Promise<void> {
    return this.#listener.stop();
  }
}
