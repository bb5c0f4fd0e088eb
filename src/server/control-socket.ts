/**
 * The control socket of a server: a Unix socket through which a newer server takes over the port. Messages are lines of
 * JSON.
 */
import { chmodSync, lstatSync, mkdirSync, readlinkSync, rmSync } from "node:fs";
import { createConnection, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { log } from "../base/log.ts";
import { offerSchema } from "./offer.ts";

/** Version of the messages. It increases when older servers would misread a message. */
export const PROTOCOL = 2;

export const handoverMessage = z.union([
  // From the newer server: asks to take over. `network` is its network namespace.
  z.object({
    kind: z.literal("hello"),
    protocol: z.int(),
    version: z.string(),
    pid: z.int(),
    network: z.string(),
    offer: offerSchema.default({ models: [], answersClients: false }),
    // Whether the newer server may lack models of the older server (--replace).
    replaces: z.boolean().default(false),
    // Id of the process that started the newer server for an upgrade.
    starter: z.int().optional(),
  }),
  // From the older server: accepts the upgrade. `server` is its name in the store. `fronts` has a Unix socket for each
  // of its HTTP processes, each with `socketsPerFront` sockets on the port.
  z.object({
    kind: z.literal("welcome"),
    server: z.string(),
    fronts: z.array(z.string()),
    socketsPerFront: z.int().default(1),
    offer: offerSchema,
  }),
  z.object({ kind: z.literal("refused"), reason: z.string() }),
  // From the newer server: it has opened the port. `steered`: all new connections reach it.
  z.object({ kind: z.literal("opened"), fronts: z.array(z.string()), steered: z.boolean() }),
  // From the older server: it has closed its control socket, so the newer server may open one.
  z.object({ kind: z.literal("left") }),
  // From the older server: one of its HTTP processes has closed the port; `open` more have not.
  z.object({ kind: z.literal("closed"), open: z.int() }),
  z.object({ kind: z.literal("steered") }),
  // From the newer server: it does not start.
  z.object({ kind: z.literal("failed"), reason: z.string() }),
]);
export type HandoverMessage = z.infer<typeof handoverMessage>;

export class HandoverLink {
  readonly #socket: Socket;
  readonly #received: HandoverMessage[] = [];
  #wake: (() => void) | undefined;
  #isClosed = false;
  /** Resolves when the other server has ended or closed the connection. */
  readonly closed: Promise<void>;

  constructor(socket: Socket) {
    this.#socket = socket;
    let rest = "";
    const closed = Promise.withResolvers<void>();
    this.closed = closed.promise;
    socket.setEncoding("utf8");
    socket.on("data", (text: string) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) this.#receive(line);
    });
    socket.on("error", (error) => log.debug(error));
    socket.on("close", () => {
      this.#isClosed = true;
      this.#wake?.();
      closed.resolve();
    });
  }

  send(message: HandoverMessage): void {
    if (!this.#isClosed) this.#socket.write(`${JSON.stringify(message)}\n`);
  }

  /** Waits for the next message. @returns undefined when the connection has ended */
  async next(): Promise<HandoverMessage | undefined> {
    for (;;) {
      const message = this.#received.shift();
      if (message !== undefined || this.#isClosed) return message;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** Sends the remaining messages, then closes the connection. */
  end(): void {
    this.#socket.end();
  }

  #receive(line: string): void {
    try {
      this.#received.push(handoverMessage.parse(JSON.parse(line)));
      this.#wake?.();
    } catch (error) {
      log.debug(error);
      this.#socket.destroy();
    }
  }
}

/** Identifies the network namespace, since a port number can be in use once in each namespace. Empty if unknown. */
export function networkOf(): string {
  try {
    return readlinkSync("/proc/self/ns/net");
  } catch {
    return "";
  }
}

/**
 * Path of the control socket for an address and port, in a folder that only this user can read. Undefined if there is
 * no such folder.
 */
export function controlPath({ host, port }: { readonly host: string; readonly port: number }): string | undefined {
  const uid = process.getuid?.() ?? 0;
  const folder = join(tmpdir(), `sconce-control-${uid}`);
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const { uid: owner, mode } = lstatSync(folder);
    // Another user may have created the folder.
    if (owner !== uid || (mode & 0o077) !== 0) return undefined;
    return join(folder, `${host.replaceAll(/[^\w.-]/g, "_")}-${port}.sock`);
  } catch {
    return undefined;
  }
}

export async function connectTo(path: string): Promise<HandoverLink | undefined> {
  const { promise, resolve } = Promise.withResolvers<HandoverLink | undefined>();
  const socket = createConnection(path);
  socket.once("connect", () => resolve(new HandoverLink(socket)));
  socket.once("error", () => resolve(undefined));
  return promise;
}

/** Listens for newer servers. Replaces a socket file that a killed server has left. */
export class ControlSocket {
  readonly #path: string;
  readonly #onLink: (link: HandoverLink) => void;
  #server: Server | undefined;

  constructor(path: string, onLink: (link: HandoverLink) => void) {
    this.#path = path;
    this.#onLink = onLink;
  }

  async open(): Promise<void> {
    if (this.#server !== undefined) return;
    const server = createServer((socket) => this.#onLink(new HandoverLink(socket)));
    this.#server = server;
    rmSync(this.#path, { force: true });
    const { promise, resolve } = Promise.withResolvers<void>();
    server.once("error", (error) => {
      log.warn(`This server cannot be upgraded in place: ${error.message}`);
      resolve();
    });
    server.listen(this.#path, () => {
      chmodSync(this.#path, 0o600);
      resolve();
    });
    server.unref();
    await promise;
  }

  /** Stops listening. Open connections stay open. */
  close(): void {
    this.#server?.close();
    this.#server = undefined;
  }
}
