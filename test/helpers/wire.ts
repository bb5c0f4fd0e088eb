/** Raw TCP connections to a server. */
import { connect } from "node:net";
import { until } from "./running.ts";

/** A raw TCP connection: tests write and see its bytes, whether they are valid HTTP or not. */
interface Wire extends Disposable {
  write(text: string): void;
  /** Closes the sending side. */
  end(): void;
  /** Resolves once the received bytes contain `part`. */
  received(part: string): Promise<void>;
  /** Resolves with everything received once the server has closed the connection. */
  readonly closed: Promise<string>;
}

export function wire(url: URL): Wire {
  const socket = connect({ host: url.hostname, port: Number(url.port) });
  const closed = Promise.withResolvers<string>();
  let text = "";
  socket.on("data", (chunk) => {
    text += chunk.toString("latin1");
  });
  socket.on("error", () => {});
  socket.on("close", () => closed.resolve(text));
  return {
    write: (part) => socket.write(part, "latin1"),
    end: () => socket.end(),
    received: (part) => until(() => text.includes(part)),
    closed: closed.promise,
    [Symbol.dispose]: () => socket.destroy(),
  };
}

/**
 * Sends bytes over a connection. @param options.end whether to close the sending side afterwards @returns everything
 * that the server sends until it closes the connection
 */
export async function sendRaw(url: URL, bytes: string, options: { readonly end?: boolean } = {}): Promise<string> {
  using connection = wire(url);
  connection.write(bytes);
  if (options.end) connection.end();
  return await connection.closed;
}

/** The bytes of a request with a prediction. @param length the Content-Length, by default that of the body */
export const post = (body: string, { length = body.length, prefer = "" } = {}) =>
  `POST /predictions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${prefer}Content-Length: ${length}\r\n\r\n${body}`;
