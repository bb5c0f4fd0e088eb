/** The port: opened at once, with an app that is exchanged when the model is ready; closed for as long as there are too many connections. */
import { rmSync } from "node:fs";
import { messageOf, SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import type { ServeConfig } from "../config.ts";
import { descriptorLimit, lowestFree } from "./descriptors.ts";
import { asItCame } from "./head-as-get.ts";

export type Fetch = (request: Request) => Response | Promise<Response>;

export interface ListenOptions extends Pick<ServeConfig, "port" | "host" | "idleTimeout"> {
  /** Lets several processes of one server listen on the port. By default Bun lets any, and each client meets one of them. */
  readonly isShared?: boolean;
  /** Path of a Unix socket to listen on in place of the port. */
  readonly unix?: string | undefined;
}

/** The other end of a connection. */
export type Peer = Pick<Bun.SocketAddress, "address" | "port">;

type Server = Bun.Server<undefined>;

/** How often the connections are counted: a burst is let in for this long. */
const LOOK_MS = 100;
/** Descriptors that are left for all but connections: files, fetches, the database. */
const SPARE = { least: 16, share: 0.1 };

/**
 * Bun has no limit of connections, and with no descriptor free it asks the system for the next connection without end, which takes a core.
 * So before there is none the port is closed: new clients are refused by the system, and connections that carry no request are
 * closed. Those that carry one go on. The port is opened again as soon as there is room.
 */
export class Listener {
  readonly url: URL;
  readonly port: number;
  readonly #options: ListenOptions;
  readonly #most: number;
  #fetch: Fetch;
  /** Undefined while the port is closed. */
  #server: Server | undefined;
  /** Closed ones whose connections have not ended. */
  readonly #closed = new Set<Server>();
  readonly #look: ReturnType<typeof setInterval>;
  #hasWarned = false;

  /** @throws SconceError `address_in_use` */
  constructor(options: ListenOptions, fetch: Fetch) {
    this.#fetch = fetch;
    const server = this.#serve(options);
    this.#server = server;
    this.url = server.url;
    this.port = server.port ?? options.port;
    this.#options = { ...options, port: this.port };
    const limit = descriptorLimit();
    this.#most = limit - Math.max(SPARE.least, SPARE.share * limit);
    this.#look = setInterval(() => this.#watch(), LOOK_MS);
    this.#look.unref();
  }

  /** What answers from now on. */
  set fetch(fetch: Fetch) {
    this.#fetch = fetch;
  }

  /** For how many seconds the connection of a request may be silent; 0: for ever. */
  timeout(request: Request, seconds: number): void {
    // Bun finds the connection by the request, whichever server it came to.
    const [server = this.#server] = this.#closed;
    server?.timeout(asItCame(request), seconds);
  }

  /** Of a request that was not answered yet. */
  peerOf(request: Request): Peer | undefined {
    const [server = this.#server] = this.#closed;
    return server?.requestIP(asItCame(request)) ?? undefined;
  }

  /** @param areEnded whether connections are closed that still carry a request */
  async stop(areEnded = false): Promise<void> {
    clearInterval(this.#look);
    const servers = [...this.#closed, ...(this.#server === undefined ? [] : [this.#server])];
    await Promise.all(servers.map((server) => server.stop(areEnded)));
  }

  #watch(): void {
    const isFull = lowestFree() >= this.#most;
    const server = this.#server;
    if (isFull && server !== undefined) {
      this.#server = undefined;
      this.#closed.add(server);
      void server.stop().finally(() => this.#closed.delete(server));
      if (!this.#hasWarned)
        log.warn("There are too many connections: new ones are refused until some end; `ulimit -n` sets the limit");
      this.#hasWarned = true;
    } else if (!isFull && server === undefined) {
      try {
        this.#server = this.#serve(this.#options);
      } catch (error) {
        log.debug(`The port cannot be opened again yet: ${messageOf(error)}`);
      }
    }
  }

  #serve({ port, host, idleTimeout, isShared = false, unix }: ListenOptions): Server {
    try {
      // Left by a process that was killed.
      if (unix !== undefined) rmSync(unix, { force: true });
      return Bun.serve({
        ...(unix === undefined ? { port, hostname: host, reusePort: isShared, idleTimeout } : { unix }),
        // Bun answers larger bodies itself, with nothing in it; the routes answer with a problem.
        maxRequestBodySize: Number.MAX_SAFE_INTEGER,
        development: false,
        fetch: (request) => this.#fetch(request),
      });
    } catch (error) {
      const { found, fix } = listenFault(error);
      throw new SconceError("address_in_use", `port ${port} of ${host} ${found}; ${fix}`, { cause: error });
    }
  }
}

/** Why a port cannot be listened on, and what to do. */
export function listenFault(error: unknown): { readonly found: string; readonly fix: string } {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return code === "EADDRINUSE"
    ? { found: "is in use by another program", fix: "choose another with --port" }
    : { found: `cannot be listened on (${messageOf(error)})`, fix: "choose another with --port or --host" };
}

/**
 * The port for processes that share one: the one asked for, or one that is free.
 * @throws SconceError `address_in_use` where another program has it
 */
export function freePort(options: ListenOptions): number {
  const listener = new Listener(options, () => new Response());
  void listener.stop(true);
  return listener.port;
}

/** As it can be typed on this machine, in the way that Bun writes a listener's. */
export function localUrl(host: string, port: number): URL {
  return new URL(`http://${host.includes(":") ? `[${host}]` : host}:${port}`);
}
