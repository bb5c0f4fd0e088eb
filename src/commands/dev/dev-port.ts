/** The port of `sconce dev`: it stays open while front processes follow one another behind it, so that no client meets a closed one. */
import type { ServeConfig } from "../../config.ts";
import { Lifecycle } from "../../http/lifecycle.ts";
import { Listener } from "../../http/listener.ts";
import { named } from "../../http/requests.ts";
import { createStartingApp } from "../../http/routes/health.ts";

/** Forwards requests to a front. */
export class FrontDoor {
  /** Unix socket that the front listens on. */
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

  /** Resolves when every request so far is answered. */
  async quiet(): Promise<void> {
    await Promise.allSettled(this.#unanswered);
  }
}

export class DevPort {
  readonly url: URL;
  /** Answers from now on; while there is none clients get 503 and `Retry-After`. */
  door: FrontDoor | undefined;
  readonly #listener: Listener;

  /** @throws SconceError `address_in_use` */
  constructor(config: ServeConfig) {
    const unready = named(createStartingApp(new Lifecycle(), "sconce dev").fetch, { accessLog: config.accessLog });
    this.#listener = new Listener(config, async (request) => {
      if (this.door === undefined) return unready(request);
      // The front limits how long requests may take.
      this.#listener.timeout(request, 0);
      try {
        return await this.door.forward(request);
      } catch (error) {
        if (request.signal.aborted) throw error;
        // Its process has ended and is started again.
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
