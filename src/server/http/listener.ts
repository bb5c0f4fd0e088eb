/** Listens on the port. Limits the number of connections, and replaces the app when the model is ready. */
import { closeSync, openSync, readFileSync, rmSync } from "node:fs";
import { messageOf, SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import type { ServeConfig } from "../config.ts";
import { connectionsAt, ListeningSocket } from "./listening-socket.ts";
import { originalOf } from "./request.ts";
import { TlsFiles, type TlsPaths } from "./tls-files.ts";

export type Fetch = (request: Request) => Response | Promise<Response>;

export interface ListenOptions extends Pick<ServeConfig, "port" | "host" | "idleTimeout">, TlsPaths {
  /** Whether several processes of this server listen on the port. */
  readonly isShared?: boolean;
  /** The option of the port, for messages. */
  readonly portOption?: "--port" | "--admin-port";
  /** Path of a Unix socket that replaces the port. */
  readonly unix?: string | undefined;
}

/** The client's address. */
export type Peer = Pick<Bun.SocketAddress, "address" | "port">;

type Server = Bun.Server<undefined>;

/** Bun counts the silence of a connection in ticks of its clock. The current tick counts as a whole one. */
const TICK_S = 4;
/** Interval of counting connections. */
const COUNT_MS = 100;
/** A port without connections for this time is quiet; the limit of the wait without an idle timeout. */
const QUIET = { forMs: 1000, defaultS: 120 };
/** Interval of checks for other TLS files. */
const TLS_MS = 1000;
/** Descriptors for files, fetches and the database. */
const RESERVED = { least: 16, share: 0.1 };

/**
 * Bun does not limit connections. Without a free descriptor it calls accept() in an endless loop. So the port is closed before descriptors
 * run out: the kernel refuses new clients, idle connections are closed, and requests continue. The port opens again when descriptors are
 * free.
 */
export class Listener {
  readonly url: URL;
  readonly port: number;
  readonly #options: ListenOptions;
  readonly #maxDescriptor: number;
  #fetch: Fetch;
  /** Undefined while the port is closed. */
  #server: Server | undefined;
  /** Closed servers with unfinished requests. */
  readonly #closed = new Set<Server>();
  readonly #timer: ReturnType<typeof setInterval>;
  #hasWarned = false;
  #isStopped = false;
  /** Whether each answer ends its connection: another server takes the next one. */
  #isRetiring = false;
  /** Undefined for HTTP without TLS. */
  readonly #tls: TlsFiles | undefined;
  readonly #tlsTimer: ReturnType<typeof setInterval> | undefined;

  /** @throws SconceError `address_in_use`, or `usage` for TLS files that cannot be used */
  constructor(options: ListenOptions, fetch: Fetch) {
    this.#fetch = fetch;
    this.#tls = options.unix === undefined ? TlsFiles.of(options) : undefined;
    const server = this.#serve(options);
    this.#server = server;
    this.url = server.url;
    this.port = server.port ?? options.port;
    this.#options = { ...options, port: this.port };
    const limit = descriptorLimit();
    this.#maxDescriptor = limit - Math.max(RESERVED.least, RESERVED.share * limit);
    this.#timer = setInterval(() => this.#limitConnections(), COUNT_MS);
    this.#timer.unref();
    this.#tlsTimer = this.#tls && setInterval(() => this.#readTls(), TLS_MS);
    this.#tlsTimer?.unref();
  }

  set fetch(fetch: Fetch) {
    this.#fetch = fetch;
  }

  /** Sets how long the connection of a request may be silent; 0: without limit. */
  timeout(request: Request, seconds: number): void {
    // Any server finds the connection of a request.
    const [server = this.#server] = this.#closed;
    server?.timeout(originalOf(request), inBun(seconds));
  }

  /** Works until the request is answered. */
  peerOf(request: Request): Peer | undefined {
    const [server = this.#server] = this.#closed;
    return server?.requestIP(originalOf(request)) ?? undefined;
  }

  /** Sends new connections to some of the sockets of the port. @returns whether the system does so */
  steer(sockets: { readonly first: number; readonly count: number }): boolean {
    using socket = ListeningSocket.find(this.port);
    return socket?.steer(sockets) ?? false;
  }

  set isRetiring(isRetiring: boolean) {
    this.#isRetiring = isRetiring;
    if (isRetiring || this.#server !== undefined) return;
    this.#isStopped = false;
    this.#server = this.#serve(this.#options);
  }

  /** Closes the port when it has had no connections for a while, or only idle ones, if it retires then. */
  async closeWhenQuiet(): Promise<void> {
    await this.#quiet();
    const server = this.#server;
    if (!this.#isRetiring || server === undefined) return;
    this.#isStopped = true;
    this.#server = undefined;
    this.#closed.add(server);
    await server.stop();
    this.#closed.delete(server);
  }

  async #quiet(): Promise<void> {
    const { idleTimeout } = this.#options;
    const limitMs = 1000 * (idleTimeout === 0 ? QUIET.defaultS : idleTimeout + 2 * TICK_S) + QUIET.forMs;
    const beganMs = performance.now();
    for (let sinceMs = beganMs; performance.now() - sinceMs < QUIET.forMs; ) {
      await Bun.sleep(COUNT_MS);
      const now = performance.now();
      if (connectionsAt(this.port) !== 0) sinceMs = now;
      if (!this.#isRetiring || now - beganMs > limitMs) return;
    }
  }

  /** @param abort closes connections that have a request, too */
  async stop(abort = false): Promise<void> {
    clearInterval(this.#timer);
    clearInterval(this.#tlsTimer);
    const servers = [...this.#closed, ...(this.#server === undefined ? [] : [this.#server])];
    await Promise.all(servers.map((server) => server.stop(abort)));
  }

  /** New connections get the changed certificate. With faulty files the server continues with the old ones. */
  #readTls(): void {
    if (this.#server === undefined || !this.#tls?.hasChanged()) return;
    try {
      // A trial: the port must not close for a certificate that does not fit its key.
      void Bun.serve({ port: 0, hostname: "127.0.0.1", tls: this.#tls.content(), fetch: () => new Response() }).stop(
        true,
      );
    } catch (error) {
      log.error(`The TLS certificate stays as it was: ${messageOf(error)}`);
      return;
    }
    const old = this.#server;
    this.#closed.add(old);
    void old.stop().finally(() => this.#closed.delete(old));
    this.#server = this.#serve(this.#options);
    log.info("Read the TLS certificate again");
  }

  #limitConnections(): void {
    if (this.#isStopped) return;
    const isFull = lowestFree() >= this.#maxDescriptor;
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

  #serve({ port, host, idleTimeout, isShared = false, unix, portOption }: ListenOptions): Server {
    const tls = this.#tls?.content();
    try {
      // A killed process leaves its socket.
      if (unix !== undefined) rmSync(unix, { force: true });
      return Bun.serve({
        ...(unix === undefined
          ? { port, hostname: host, reusePort: isShared, idleTimeout: inBun(idleTimeout) }
          : { unix }),
        ...(tls && { tls }),
        // The routes check the size: Bun's own answer has no problem details.
        maxRequestBodySize: Number.MAX_SAFE_INTEGER,
        development: false,
        fetch: (request) => (this.#isRetiring ? lastAnswer(this.#fetch(request)) : this.#fetch(request)),
      });
    } catch (error) {
      if (tls !== undefined && !isOfAddress(error))
        throw new SconceError("usage", `the TLS certificate and its key cannot be used: ${messageOf(error)}`);
      const { found, fix } = listenFault(error, portOption);
      throw new SconceError("address_in_use", `port ${port} of ${host} ${found}; ${fix}`, { cause: error });
    }
  }
}

/** Bun's timeout for connections that may be silent for `seconds`: one more tick than these seconds have. Bun closes them up to 8 seconds later. */
function inBun(seconds: number): number {
  return seconds === 0 ? 0 : Math.min(seconds + TICK_S, 255);
}

/** Ends the connection after the answer. */
async function lastAnswer(answer: Response | Promise<Response>): Promise<Response> {
  const response = await answer;
  response.headers.set("Connection", "close");
  return response;
}

/** Whether the system refused the address. */
function isOfAddress(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  return /^E(ADDR|ACCES|PERM)/.test(code);
}

/** Why listening failed, and the fix. */
export function listenFault(
  error: unknown,
  portOption: ListenOptions["portOption"] = "--port",
): { readonly found: string; readonly fix: string } {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return code === "EADDRINUSE"
    ? { found: "is in use by another program", fix: `choose another with ${portOption}` }
    : {
        found: `cannot be listened on (${messageOf(error)})`,
        fix: `choose another with ${portOption} or ${portOption.replace("port", "host")}`,
      };
}

/**
 * The port that processes can share: `options.port`, or a free one for 0.
 * @throws SconceError `address_in_use`
 */
export function freePort(options: ListenOptions): number {
  const listener = new Listener(options, () => new Response());
  void listener.stop(true);
  return listener.port;
}

/** The URL of a port, as Bun writes it. */
export function localUrl(host: string, port: number, hasTls = false): URL {
  return new URL(`${hasTls ? "https" : "http"}://${host.includes(":") ? `[${host}]` : host}:${port}`);
}

/** `ulimit -n`; Infinity if it is unknown, as on systems without /proc. */
export function descriptorLimit(): number {
  try {
    const [, limit] = /^Max open files +(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return limit === undefined ? Infinity : Number(limit);
  } catch {
    return Infinity;
  }
}

/** The lowest free descriptor, which tells about how many are open. Infinity if none is free. */
export function lowestFree(): number {
  try {
    const descriptor = openSync("/dev/null", "r");
    closeSync(descriptor);
    return descriptor;
  } catch {
    return Infinity;
  }
}
