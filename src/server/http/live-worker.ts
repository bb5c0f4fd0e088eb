/**
 * The thread of `LiveThread`. While the JS thread is held, this thread accepts the pending connections of the port.
 * It answers `GET /health/live`. When the JS thread runs again, this thread forwards all other connections to it.
 */

import { dlopen, FFIType, ptr } from "bun:ffi";
import { closeSync, readdirSync } from "node:fs";
import type { Socket } from "bun";
import type { LiveStart } from "./live-thread.ts";

declare const self: Worker;

declare module "bun" {
  /** Adopts an accepted connection. Bun declares only the options of this overload. */
  function connect<Data>(options: FdSocketOptions<Data>): Promise<Socket<Data>>;
}

/** The JS thread is held if it gives no beat for this time. */
const HELD_MS = 1000;
const CHECK_MS = 250;
const ACCEPT_MS = 20;
/** Maximum bytes read from a request before the connection is forwarded. */
const MAX_HEAD_BYTES = 8192;

const live = /^GET \/health\/live(?:\?\S*)? HTTP\/1\.[01]\r\n/;
const body = '{"status":"live"}';
const head = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close`;
const answer = `${head}\r\n\r\n${body}`;

/** An end of a forwarded connection. */
interface End {
  /** Received bytes that are not sent to the other end yet. */
  unsent: Buffer;
  /** The other end; undefined before the connection is forwarded. */
  other: Socket<End> | undefined;
}

const waiting = new Set<Socket<End>>();

const handler = {
  data(socket: Socket<End>, chunk: Buffer) {
    const end = socket.data;
    end.unsent = Buffer.concat([end.unsent, chunk]);
    if (end.other !== undefined) return send(socket);
    const text = end.unsent.toString("latin1", 0, MAX_HEAD_BYTES);
    if (live.test(text) && text.includes("\r\n\r\n")) {
      waiting.delete(socket);
      socket.end(answer);
    } else if (end.unsent.length >= MAX_HEAD_BYTES) {
      socket.pause();
    }
  },
  drain({ data: { other } }: Socket<End>) {
    if (other !== undefined) send(other);
  },
  close(socket: Socket<End>) {
    waiting.delete(socket);
    const { other, unsent } = socket.data;
    if (other === undefined) return;
    other.write(unsent);
    other.end();
  },
  error: (socket: Socket<End>) => void socket.terminate(),
};

/** Sends received bytes to the other end. Pauses reading until all are sent. */
function send(socket: Socket<End>): void {
  const { data } = socket;
  if (data.other === undefined) return;
  const sent = Math.max(0, data.other.write(data.unsent));
  data.unsent = data.unsent.subarray(sent);
  if (data.unsent.length > 0) socket.pause();
  else socket.resume();
}

self.onmessage = ({ data: { port, beats } }: MessageEvent<LiveStart>) => {
  let listening: ListeningSocket | undefined;
  let seen = -1;
  let seenAtMs = 0;
  const check = () => {
    const now = performance.now();
    const beat = Atomics.load(beats, 0);
    if (beat !== seen) [seen, seenAtMs] = [beat, now];
    const isHeld = now - seenAtMs >= HELD_MS;
    if (isHeld) {
      listening ??= ListeningSocket.find(port);
      for (let fd = listening?.accept(); fd !== undefined; fd = listening?.accept()) void adopt(fd);
    } else {
      listening?.[Symbol.dispose]();
      listening = undefined;
      for (const socket of waiting) void forward(socket, port);
      waiting.clear();
    }
    setTimeout(check, isHeld ? ACCEPT_MS : CHECK_MS);
  };
  check();
};

const newEnd = (): End => ({ unsent: Buffer.alloc(0), other: undefined });

async function adopt(fd: number): Promise<void> {
  try {
    const socket = await Bun.connect<End>({ fd, data: newEnd(), socket: handler });
    if (!live.test(socket.data.unsent.toString("latin1", 0, MAX_HEAD_BYTES))) waiting.add(socket);
  } catch {
    closeSync(fd);
  }
}

async function forward(socket: Socket<End>, port: number): Promise<void> {
  try {
    const data = { ...newEnd(), other: socket };
    socket.data.other = await Bun.connect<End>({ hostname: socket.localAddress, port, data, socket: handler });
    send(socket);
  } catch {
    socket.terminate();
  }
}

/** Linux constants. */
const SOL_SOCKET = 1;
const SO_ACCEPTCONN = 30;
const F_DUPFD_CLOEXEC = 1030;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
/** Size of `sockaddr_storage`. */
const ADDRESS_BYTES = 128;

const { int, ptr: pointer } = FFIType;

const open = () =>
  dlopen("libc.so.6", {
    getsockopt: { args: [int, int, int, pointer, pointer], returns: int },
    getsockname: { args: [int, pointer, pointer], returns: int },
    fcntl: { args: [int, int, int], returns: int },
    accept4: { args: [int, pointer, pointer, int], returns: int },
    close: { args: [int], returns: int },
  }).symbols;

let libc: ReturnType<typeof open> | undefined;

/** This process's listening socket. Bun does not tell its descriptor, so it is searched in /proc. */
class ListeningSocket implements Disposable {
  readonly #descriptor: number;

  private constructor(descriptor: number) {
    this.#descriptor = descriptor;
  }

  /** Duplicates the descriptor, because the JS thread may close the port. @returns undefined if no socket listens, and on other systems than Linux */
  static find(port: number): ListeningSocket | undefined {
    if (process.platform !== "linux") return undefined;
    libc ??= open();
    const { fcntl } = libc;
    for (const name of readdirSync("/proc/self/fd")) {
      if (!listensAt(libc, Number(name), port)) continue;
      const copy = fcntl(Number(name), F_DUPFD_CLOEXEC, 0);
      if (copy >= 0) return new ListeningSocket(copy);
    }
    return undefined;
  }

  /** @returns the descriptor of a connection; undefined if none waits */
  accept(): number | undefined {
    const accepted = libc?.accept4(this.#descriptor, null, null, SOCK_NONBLOCK | SOCK_CLOEXEC) ?? -1;
    return accepted < 0 ? undefined : accepted;
  }

  [Symbol.dispose](): void {
    libc?.close(this.#descriptor);
  }
}

function listensAt({ getsockopt, getsockname }: ReturnType<typeof open>, descriptor: number, port: number): boolean {
  const value = new Int32Array(1);
  const size = Uint32Array.of(value.byteLength);
  if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, ptr(value), ptr(size)) !== 0 || value[0] !== 1) return false;
  const address = new DataView(new ArrayBuffer(ADDRESS_BYTES));
  const length = Uint32Array.of(ADDRESS_BYTES);
  if (getsockname(descriptor, ptr(address), ptr(length)) !== 0) return false;
  // In IPv4 and IPv6 addresses the port follows the family.
  const [family, AF_INET, AF_INET6] = [address.getUint16(0, true), 2, 10];
  return (family === AF_INET || family === AF_INET6) && address.getUint16(2) === port;
}
