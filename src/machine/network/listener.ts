/** Listens on a port. Limits the number of connections. */
import { codeOf, messageOf, SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { descriptorLimit, lowestFreeDescriptor } from "../file-descriptors.ts";
import { type TlsPaths, tlsOf } from "./tls-files.ts";

export type Fetch = (request: Request) => Response | Promise<Response>;

/** The address of a client. */
export type Peer = Pick<Bun.SocketAddress, "address" | "port">;

export interface ListenOptions extends TlsPaths {
  readonly port: number;
  readonly host: string;
  /** Seconds until an idle connection is closed; 0 for no limit. */
  readonly idleTimeout: number;
  /** Whether several processes of the server listen on the same port. */
  readonly isShared?: boolean;
  /** The option that sets the port, for error messages. */
  readonly portOption?: "--port" | "--admin-port";
}

type Server = Bun.Server<undefined>;

/** Bun measures the idle time of a connection in ticks of 4 seconds. The tick that is under way counts as a whole tick. */
const TICK_S = 4;
/** Milliseconds between checks of the number of open files. */
const CHECK_MS = 100;
/** Connections leave free the larger of `least` and `share` of all file descriptors (`ulimit -n`), for files, fetches and the database. */
const RESERVED = { least: 16, share: 0.1 };

/**
 * Limits connections by file descriptors: Bun does not, and calls accept() in an endless loop when none is free. When descriptors run short, the port
 * closes. The kernel then refuses new clients, idle connections end, and running requests continue. The port opens again when descriptors are free.
 */
export class Listener {
  readonly url: URL;
  readonly port: number;
  readonly #options: ListenOptions;
  readonly #maxDescriptor: number;
  readonly #fetch: Fetch;
  /** The server that accepts connections; undefined while the port is closed. */
  #server: Server | undefined;
  /** Servers that accept no more connections, but still answer requests. */
  readonly #closed = new Set<Server>();
  readonly #timer: ReturnType<typeof setInterval>;
  #hasWarned = false;
  readonly #tls: Bun.TLSOptions | undefined;

  /**
   * Opens the port.
   * @throws SconceError `address_in_use`, or `usage` for unusable TLS files
   */
  constructor(options: ListenOptions, fetch: Fetch) {
    this.#fetch = fetch;
    this.#tls = tlsOf(options);
    const server = this.#serve(options);
    this.#server = server;
    this.url = server.url;
    this.port = server.port ?? options.port;
    this.#options = { ...options, port: this.port };
    const limit = descriptorLimit();
    this.#maxDescriptor = limit - Math.max(RESERVED.least, RESERVED.share * limit);
    this.#timer = setInterval(() => this.#limitConnections(), CHECK_MS);
    this.#timer.unref();
  }

  /** Sets the idle timeout of a request's connection, in seconds; 0 disables it. */
  timeout(request: Request, seconds: number): void {
    // Any Bun.Server of this process can find the connection of any request.
    const [server = this.#server] = this.#closed;
    server?.timeout(request, inBun(seconds));
  }

  /** The address and port of the client; undefined after the request is answered. */
  peerOf(request: Request): Peer | undefined {
    const [server = this.#server] = this.#closed;
    return server?.requestIP(request) ?? undefined;
  }

  /** Closes the port. Resolves when all requests are answered. With `abort`, closes the connections of running requests. */
  async stop(abort = false): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all([...this.#closed, this.#server].map((server) => server?.stop(abort)));
  }

  #limitConnections(): void {
    const isFull = lowestFreeDescriptor() >= this.#maxDescriptor;
    const isOpen = this.#server !== undefined;
    if (isFull && isOpen) {
      void this.#close();
      if (!this.#hasWarned)
        log.warn("There are too many connections: new ones are refused until some end; `ulimit -n` sets the limit");
      this.#hasWarned = true;
    } else if (!isFull && !isOpen) {
      try {
        this.#server = this.#serve(this.#options);
      } catch (error) {
        log.debug(`The port cannot be opened again yet: ${messageOf(error)}`);
      }
    }
  }

  /** Closes the port. Resolves when all requests are answered. */
  async #close(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    this.#closed.add(server);
    await server.stop();
    this.#closed.delete(server);
  }

  #serve({ port, host, idleTimeout, isShared = false, portOption }: ListenOptions): Server {
    const tls = this.#tls;
    try {
      return Bun.serve({
        port,
        hostname: host,
        reusePort: isShared,
        idleTimeout: inBun(idleTimeout),
        ...(tls && { tls }),
        // Routes check the size of a body instead, because Bun's own answer has no problem details (RFC 9457).
        maxRequestBodySize: Number.MAX_SAFE_INTEGER,
        development: false,
        fetch: this.#fetch,
      });
    } catch (error) {
      const { found, fix } = listenFault(error, portOption);
      throw new SconceError("address_in_use", `port ${port} of ${host} ${found}; ${fix}`, { cause: error });
    }
  }
}

/**
 * Converts an idle timeout to Bun's `idleTimeout`, in seconds: adds one tick, since Bun counts the first tick as whole. Bun then closes a connection
 * up to 8 seconds late.
 */
function inBun(seconds: number): number {
  return seconds === 0 ? 0 : Math.min(seconds + TICK_S, 255);
}

/** Describes why listening failed, and the fix. */
export function listenFault(
  error: unknown,
  portOption: ListenOptions["portOption"] = "--port",
): { readonly found: string; readonly fix: string } {
  return codeOf(error) === "EADDRINUSE"
    ? { found: "is in use by another program", fix: `choose another with ${portOption}` }
    : {
        found: `cannot be listened on (${messageOf(error)})`,
        fix: `choose another with ${portOption} or ${portOption.replace("port", "host")}`,
      };
}

/**
 * Finds a port that several processes can share: `options.port`, or a free port for 0.
 * @throws SconceError `address_in_use`
 */
export function freePort(options: ListenOptions): number {
  const listener = new Listener(options, () => new Response());
  void listener.stop(true);
  return listener.port;
}

/** The URL of a host and port, in the format of Bun's `server.url`. */
export function localUrl(host: string, port: number, hasTls = false): URL {
  return new URL(`${hasTls ? "https" : "http"}://${host.includes(":") ? `[${host}]` : host}:${port}`);
}
