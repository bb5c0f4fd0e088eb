/** The port of a front. Before the front is ready, the port answers health checks, and all other requests with 503. */

import type { FrontOptions } from "./front-shared.ts";
import { type Fetch, Listener, type Peer } from "./http/listener.ts";
import { LiveThread } from "./http/live-thread.ts";
import { withContext } from "./http/request.ts";
import { createStartingApp, type Lifecycle } from "./http/routes/health.ts";

export class FrontPort implements AsyncDisposable {
  readonly #options: Pick<FrontOptions, "config" | "listening">;
  readonly #opened = new AsyncDisposableStack();
  readonly #starting: Fetch;
  #listener: Listener | undefined;

  constructor({ config, listening, models: [{ packaged }] }: FrontOptions, lifecycle: Lifecycle) {
    this.#options = { config, ...(listening && { listening }) };
    const { basePath, accessLog } = config;
    const clients =
      config.role === "worker"
        ? {}
        : { name: config.apiKeys === undefined ? packaged.repository : "sconce", api: config.api };
    this.#starting = withContext(createStartingApp(lifecycle, { basePath, ...clients }).fetch, { accessLog });
  }

  /** @throws SconceError `address_in_use` */
  open(): Listener {
    const { config, listening } = this.#options;
    const listener = new Listener({ ...config, ...listening }, this.#starting);
    this.#opened.defer(() => listener.stop(true));
    // The thread reads requests itself, and knows no TLS.
    const isPlain = listening?.unix === undefined && config.tlsCert === undefined;
    if (isPlain) this.#opened.use(new LiveThread(listener.port));
    this.#listener = listener;
    return listener;
  }

  /** Answers all requests with `fetch` from now on, and opens the port if it is closed. @returns the server's URL */
  serve(fetch: Fetch): URL {
    const listener = this.#listener ?? this.open();
    listener.fetch = fetch;
    return listener.url;
  }

  /** A request on hold may be silent for longer than the idle timeout: `Prefer: wait` delays its answer. */
  readonly hold = (request: Request, isHeld: boolean): void =>
    this.#listener?.timeout(request, isHeld ? 0 : this.#options.config.idleTimeout);

  readonly peerOf = (request: Request): Peer | undefined => this.#listener?.peerOf(request);

  /** Accepts no more connections; resolves when all requests are answered. */
  async stop(): Promise<void> {
    await this.#listener?.stop();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#opened.disposeAsync();
  }
}
