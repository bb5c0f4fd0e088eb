/** A loopback server that answers with raw bytes, whether they are valid HTTP or not. */
import { createServer, type Socket } from "node:net";

export interface RawServer extends AsyncDisposable {
  readonly port: number;
  /** Request line and headers of each request, as text. */
  readonly requests: readonly string[];
  /** Number of connections that clients have opened. */
  readonly connections: number;
  /** Resolves when the client or the server has closed a connection. */
  closed(): Promise<void>;
}

/**
 * Starts the server on a free port of `host`. It calls `answer` for each request, and expects requests without a
 * body.
 */
export async function rawServer(
  answer: (socket: Socket, request: string) => void,
  host = "127.0.0.1",
): Promise<RawServer> {
  const sockets = new Set<Socket>();
  const requests: string[] = [];
  let connections = 0;
  const firstClosed = Promise.withResolvers<void>();
  const server = createServer((socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => {
      sockets.delete(socket);
      firstClosed.resolve();
    });
    let received = "";
    socket.on("data", (chunk) => {
      received += chunk.toString("latin1");
      for (let end = received.indexOf("\r\n\r\n"); end >= 0; end = received.indexOf("\r\n\r\n")) {
        const request = received.slice(0, end);
        received = received.slice(end + 4);
        requests.push(request);
        answer(socket, request);
      }
    });
  });
  const listening = Promise.withResolvers<void>();
  server.once("error", listening.reject);
  server.listen(0, host, listening.resolve);
  await listening.promise;
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the server has no port");
  return {
    port: address.port,
    requests,
    get connections() {
      return connections;
    },
    closed: () => firstClosed.promise,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      const { promise, resolve } = Promise.withResolvers<void>();
      server.close(() => resolve());
      await promise;
    },
  };
}
