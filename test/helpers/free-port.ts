/** Free ports, for servers that cannot choose one themselves or that restart on the same port. */

/**
 * Ports outside the range of outgoing connections, which begins at 32768 on Linux and at 49152 elsewhere. An outgoing
 * connection could occupy the port of a server that restarts.
 */
const FIRST = 10_000;
const LAST = 32_767;

/** Ports that this process has given to tests. */
const given = new Set<number>();

/** A random free port of the loopback address. */
export function freePort(): number {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST + 1));
    if (given.has(port) || !isFree(port)) continue;
    given.add(port);
    return port;
  }
}

/** Whether no process listens on this loopback port. */
export function isFree(port: number): boolean {
  try {
    using _ = Bun.listen({ hostname: "127.0.0.1", port, socket: { data() {} } });
    return true;
  } catch {
    return false;
  }
}
