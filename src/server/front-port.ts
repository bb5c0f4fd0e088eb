/**
 * The ports of an HTTP process. Until its models are ready, the ports answer health checks, and other requests with
 * 503.
 */

import { type Fetch, Listener, type ListenOptions, type Peer } from "../http/listener.ts";
import { createStartingApp, type Lifecycle } from "../http/routes/health.ts";
import { withContext } from "../http/with-context.ts";
import type { ServeConfig } from "./config.ts";
import type { FrontOptions } from "./front-options.ts";

/** Options of the admin port; undefined without an admin port. */
export function adminListening(
  config: ServeConfig,
  listening: FrontOptions["listening"] = {},
): ListenOptions | undefined {
  if (config.adminPort === undefined) return undefined;
  const { host, port } = config.adminPort;
  return { ...config, ...listening, port: listening.adminPort ?? port, host, portOption: "--admin-port" };
}

export class FrontPort implements AsyncDisposable {
  readonly #options: Pick<FrontOptions, "config" | "listening">;
  readonly #opened = new AsyncDisposableStack();
  readonly #starting: Fetch;
  readonly #adminStarting: Fetch;
  #listener: Listener | undefined;
  #admin: Listener | undefined;

  constructor({ config, listening, models: [model] }: FrontOptions, lifecycle: Lifecycle) {
    this.#options = { config, ...(listening && { listening }) };
    const { basePath, accessLog, api } = config;
    const name = config.apiKeys === undefined ? model.name : "sconce";
    const clients = config.role === "worker" ? {} : { api, ...(api.includes("page") ? { name } : {}) };
    const app = createStartingApp(lifecycle, { basePath, ...clients });
    this.#starting = withContext(app.fetch, { accessLog, peerOf: this.peerOf });
    const admin = createStartingApp(lifecycle, { basePath });
    this.#adminStarting = withContext(admin.fetch, { accessLog, isAdmin: true, peerOf: this.adminPeerOf });
  }

  /** Opens the ports. @throws SconceError `address_in_use` */
  open(): Listener {
    const { config, listening } = this.#options;
    const listener = this.#opened.adopt(new Listener({ ...config, ...listening }, this.#starting), close);
    listener.warnOfCertificate();
    const admin = adminListening(config, listening);
    if (admin !== undefined) this.#admin = this.#opened.adopt(new Listener(admin, this.#adminStarting), close);
    this.#listener = listener;
    return listener;
  }

  /**
   * Answers all requests with these functions from now on. Opens the ports if they are closed.
   * @returns the server's URL
   */
  serve(fetch: Fetch, adminFetch: Fetch): URL {
    const listener = this.#listener ?? this.open();
    listener.fetch = fetch;
    if (this.#admin !== undefined) this.#admin.fetch = adminFetch;
    return listener.url;
  }

  get adminUrl(): URL | undefined {
    return this.#admin?.url;
  }

  /** Turns off the idle timeout of a request while its answer waits (`isHeld`), and then on again. */
  readonly hold = (request: Request, isHeld: boolean): void =>
    this.#listener?.timeout(request, isHeld ? 0 : this.#options.config.idleTimeout);

  readonly peerOf = (request: Request): Peer | undefined => this.#listener?.peerOf(request);
  readonly adminPeerOf = (request: Request): Peer | undefined => this.#admin?.peerOf(request);

  /** Stops accepting connections; resolves when all requests are answered. */
  async stop(): Promise<void> {
    await Promise.all([this.#listener?.stop(), this.#admin?.stop()]);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#opened.disposeAsync();
  }
}

function close(listener: Listener): Promise<void> {
  return listener.stop(true);
}
