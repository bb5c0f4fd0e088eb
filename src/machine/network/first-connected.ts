/** Finds the address of a host that accepts a connection first (RFC 8305, "Happy Eyeballs"). */
import { connect, type Socket } from "node:net";

/** Milliseconds before the next address is tried beside those that have not answered, as RFC 8305 recommends. */
const ATTEMPT_DELAY_MS = 250;

export interface Attempts {
  readonly addresses: readonly string[];
  readonly port: number;
  readonly signal: AbortSignal;
}

/**
 * Connects to the addresses in their order, each a quarter of a second after the one before, or at once if that one
 * fails. Closes all connections: only the address matters.
 * @returns the first address that accepts a connection; the last address if none does
 * @throws the signal's reason
 */
export async function firstConnected({ addresses, port, signal }: Attempts): Promise<string> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const sockets = new Set<Socket>();
  let timer: Timer | undefined;
  let [next, failed] = [0, 0];
  const attempt = () => {
    clearTimeout(timer);
    const address = addresses[next++];
    if (address === undefined) return;
    const socket = connect({ host: address, port });
    sockets.add(socket);
    socket.once("connect", () => resolve(address));
    socket.once("error", () => {
      if (++failed === addresses.length) resolve(addresses.at(-1) ?? address);
      else attempt();
    });
    timer = setTimeout(attempt, ATTEMPT_DELAY_MS);
  };
  const aborted = () => reject(signal.reason);
  signal.addEventListener("abort", aborted, { once: true });
  try {
    attempt();
    return await promise;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", aborted);
    for (const socket of sockets) socket.destroy();
  }
}
