/** The ports of a front. Both have the same app. */
import { type Fetch, Listener, type ListenOptions, type Peer } from "../http/listener.ts";
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
  #listener: Listener | undefined;
  #admin: Listener | undefined;

  constructor({ config, listening }: FrontOptions) {
    this.#options = { config, ...(listening && { listening }) };
  }

  /**
   * Opens the ports, unless they are open.
   * @returns the server's URL
   * @throws SconceError `address_in_use`
   */
  open(fetch: Fetch, adminFetch: Fetch): URL {
    if (this.#listener !== undefined) return this.#listener.url;
    const { config, listening } = this.#options;
    const listener = this.#opened.adopt(new Listener({ ...config, ...listening }, fetch), close);
    listener.warnOfCertificate();
    const admin = adminListening(config, listening);
    if (admin !== undefined) this.#admin = this.#opened.adopt(new Listener(admin, adminFetch), close);
    this.#listener = listener;
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
