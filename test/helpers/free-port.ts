/** Ports for servers that cannot choose a port, or that restart on the same port. */

/**
 * Below the range of outgoing connections (Linux from 32768, others from 49152). An outgoing connection could take the port of a restarting server.
 */
const FIRST = 10_000;
const LAST = 32_767;

/** Ports that this process has handed out. */
const given = new Set<number>();

/** A free port of loopback. */
export function freePort(): number {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST + 1));
    if (given.has(port) || !isFree(port)) continue;
    given.add(port);
    return port;
  }
}

/** Whether the loopback port has no listener. */
export function isFree(port: number): boolean {
  try {
    using _ = Bun.listen({ hostname: "127.0.0.1", port, socket: { data() {} } });
    return true;
  } catch {
    return false;
  }
}
