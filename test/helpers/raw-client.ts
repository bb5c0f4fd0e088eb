/** Sends raw bytes over a connection, whether they are valid HTTP or not. */
import { connect } from "node:net";

/**
 * Sends `bytes` to a loopback server. @param options.end whether to close the sending side afterwards @returns
 * everything that the server sends until it closes the connection
 */
export async function sendRaw(url: URL, bytes: string, options: { readonly end?: boolean } = {}): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  let received = "";
  const socket = connect({ host: url.hostname, port: Number(url.port) }, () => {
    if (options.end) socket.end(bytes, "latin1");
    else socket.write(bytes, "latin1");
  });
  socket.on("data", (chunk) => {
    received += chunk.toString("latin1");
  });
  socket.on("error", reject);
  socket.on("close", () => resolve(received));
  return promise;
}
