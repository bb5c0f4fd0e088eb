/** The ports of a front. Both have the same app. */

import type { Connections } from "../http/request.ts";
import { type Fetch, Listener, type ListenOptions, type Peer } from "../machine/network/listener.ts";
import type { ServeConfig } from "./config.ts";
import type { FrontStart } from "./messages.ts";

/** Options of the admin port; undefined without an admin port. */
export function adminListening({ adminPort, ...config }: ServeConfig): ListenOptions | undefined {
  return adminPort && { ...config, ...adminPort, portOption: "--admin-port" };
}

/**
 * Idle timeout of a connection with a large answer, in seconds. The kernel tells Bun that a client reads only when a
 * third of its buffer, up to 1.4 MB, is free. A client that reads 6 kB/s is in time.
 */
const SLOW_READER_S = 250;

export class FrontPort implements Connections, AsyncDisposable {
  readonly #start: FrontStart;
  readonly #opened = new AsyncDisposableStack();
  #listener: Listener | undefined;
  #adminListener: Listener | undefined;

  constructor(start: FrontStart) {
    this.#start = start;
  }

  /**
   * Opens the ports, unless they are open.
   * @throws SconceError `address_in_use`
   */
  open(fetch: Fetch, adminFetch: Fetch): void {
    if (this.#listener !== undefined) return;
    const { config, port, adminPort } = this.#start;
    const listener = this.#opened.adopt(new Listener({ ...config, port, isShared: true }, fetch), close);
    const admin = adminListening(config);
    if (admin !== undefined) {
      const listening = { ...admin, port: adminPort ?? admin.port, isShared: true };
      this.#adminListener = this.#opened.adopt(new Listener(listening, adminFetch), close);
    }
    this.#listener = listener;
  }

  hold(request: Request, isHeld: boolean): void {
    if (isHeld) this.#listener?.timeout(request, 0);
    else this.sending(request);
  }

  sending(request: Request): void {
    const { idleTimeout } = this.#start.config;
    if (idleTimeout > 0) this.#listener?.timeout(request, Math.max(idleTimeout, SLOW_READER_S));
  }

  peerOf(request: Request): Peer | undefined {
    return this.#listener?.peerOf(request);
  }

  /** The connections of the admin port. */
  readonly admin: Connections = {
    hold: (request, isHeld) => this.hold(request, isHeld),
    sending: () => {},
    peerOf: (request) => this.#adminListener?.peerOf(request),
  };

  /** Stops accepting connections; resolves when all requests are answered. */
  async stop(): Promise<void> {
    await Promise.all([this.#listener?.stop(), this.#adminListener?.stop()]);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#opened.disposeAsync();
  }
}

function close(listener: Listener): Promise<void> {
  return listener.stop(true);
}
