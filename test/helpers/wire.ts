/** Raw TCP connections to a server. */
import { connect, type Socket } from "node:net";

/** A raw TCP connection: tests write and see its bytes. */
interface Wire extends Disposable {
  write(text: string): void;
  /** Resolves once the received bytes contain `part`. */
  received(part: string): Promise<void>;
  /** Resolves with everything received once the server has closed the connection. */
  readonly closed: Promise<string>;
}

export function wire(url: URL): Wire {
  const socket: Socket = connect({ host: url.hostname, port: Number(url.port) });
  const closed = Promise.withResolvers<string>();
  const more = new Set<() => void>();
  let text = "";
  socket.on("data", (chunk) => {
    text += chunk.toString("latin1");
    for (const look of more) look();
  });
  socket.on("error", () => {});
  socket.on("close", () => closed.resolve(text));
  return {
    write: (part) => socket.write(part, "latin1"),
    received: (part) =>
      new Promise((resolve) => {
        const look = () => {
          if (!text.includes(part)) return;
          more.delete(look);
          resolve();
        };
        more.add(look);
        look();
      }),
    closed: closed.promise,
    [Symbol.dispose]: () => socket.destroy(),
  };
}

/** The bytes of a request with a prediction. @param length the Content-Length, by default that of the body */
export const post = (body: string, { length = body.length, prefer = "" } = {}) =>
  `POST /predictions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${prefer}Content-Length: ${length}\r\n\r\n${body}`;
