/** The ports of a front. Both have the same app. */
import { type Fetch, Listener, type ListenOptions } from "../http/listener.ts";
import type { Peer } from "../http/request.ts";
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

export class FrontPort implements AsyncDisposable {
  readonly #start: FrontStart;
  readonly #opened = new AsyncDisposableStack();
  #listener: Listener | undefined;
  #admin: Listener | undefined;

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
    listener.warnOfCertificate();
    const admin = adminListening(config);
    if (admin !== undefined) {
      const listening = { ...admin, port: adminPort ?? admin.port, isShared: true };
      this.#admin = this.#opened.adopt(new Listener(listening, adminFetch), close);
    }
    this.#listener = listener;
  }

  /** Turns off the idle timeout of a request while its answer waits (`isHeld`), and then on again. */
  readonly hold = (request: Request, isHeld: boolean): void =>
    isHeld ? this.#listener?.timeout(request, 0) : this.sending(request);

  /** Gives a client time to read a large answer. */
  readonly sending = (request: Request): void => {
    const { idleTimeout } = this.#start.config;
    if (idleTimeout > 0) this.#listener?.timeout(request, Math.max(idleTimeout, SLOW_READER_S));
  };

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
