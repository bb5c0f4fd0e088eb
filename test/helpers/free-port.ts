/** Ports for servers that cannot choose one, or that come back to theirs. */

/**
 * Below those that systems give to outgoing connections (Linux from 32768, others from 49152): one of these would take the port of a server
 * that is down for a moment, and nothing could listen there while it lives.
 */
const FIRST = 10_000;
const LAST = 32_767;

/** Of this process: what was given may not be listened on yet. */
const given = new Set<number>();

/** A port of loopback on which nobody listens. */
export function freePort(): number {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST + 1));
    if (given.has(port) || !isFree(port)) continue;
    given.add(port);
    return port;
  }
}

/** Whether nobody listens on the port of loopback. */
export function isFree(port: number): boolean {
  try {
    using _ = Bun.listen({ hostname: "127.0.0.1", port, socket: { data() {} } });
    return true;
  } catch {
    return false;
  }
}
