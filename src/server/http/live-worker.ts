/**
 * The second thread of `LiveThread`. While code blocks the main thread, this thread accepts connections of the port and answers `GET /health/live`.
 * When the main thread runs again, this thread forwards the accepted connections with other requests to it.
 */

import { closeSync } from "node:fs";
import type { Socket } from "bun";
import { ListeningSocket } from "./listening-socket.ts";
import type { LiveStart } from "./live-thread.ts";

declare const self: Worker;

declare module "bun" {
  /** Adopts an accepted connection by its file descriptor. Bun has this overload, but its types lack it. */
  function connect<Data>(options: FdSocketOptions<Data>): Promise<Socket<Data>>;
}

/** The main thread counts as blocked after this many milliseconds without an increment of its counter. */
const BLOCKED_MS = 1000;
const CHECK_MS = 250;
const ACCEPT_MS = 20;
/** Maximum bytes to buffer from a connection before it is forwarded. */
const MAX_HEAD_BYTES = 8192;

const live = /^GET \/health\/live(?:\?\S*)? HTTP\/1\.[01]\r\n/;
const body = '{"status":"live"}';
const head = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close`;
const answer = `${head}\r\n\r\n${body}`;

/** The data of a socket to the client or to the main thread. A forwarded connection has one socket to each. */
interface End {
  /** Bytes received on this socket and not yet sent on the other socket. */
  unsent: Buffer;
  /** The socket to send received bytes to; undefined before the connection is forwarded. */
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

/** Sends the received bytes on to `other`. Stops reading until all bytes are sent. */
function send(socket: Socket<End>): void {
  const { data } = socket;
  if (data.other === undefined) return;
  const sent = Math.max(0, data.other.write(data.unsent));
  data.unsent = data.unsent.subarray(sent);
  if (data.unsent.length > 0) socket.pause();
  else socket.resume();
}

self.onmessage = ({ data: { port, beats } }: MessageEvent<LiveStart>) => {
  let listening: ListeningSocket[] = [];
  let seen = -1;
  let seenAtMs = 0;
  const check = () => {
    const now = performance.now();
    const beat = Atomics.load(beats, 0);
    if (beat !== seen) [seen, seenAtMs] = [beat, now];
    const isBlocked = now - seenAtMs >= BLOCKED_MS;
    if (isBlocked) {
      if (listening.length === 0) listening = ListeningSocket.find(port);
      for (const each of listening) {
        for (let fd = each.accept(); fd !== undefined; fd = each.accept()) void adopt(fd);
      }
    } else {
      for (const each of listening.splice(0)) each[Symbol.dispose]();
      for (const socket of waiting) void forward(socket, port);
      waiting.clear();
    }
    setTimeout(check, isBlocked ? ACCEPT_MS : CHECK_MS);
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
