/**
 * Keeps idle connections separately for each host name. Bun pools connections by address: two names at one address
 * would share a connection, and surplus bytes of one server would be read as the answer of the other.
 */

/** Maximum number of hosts with idle connections. Beyond it, the least recently used host loses its connections. */
const MAX_HOSTS = 64;
const keepAlive = { idleTimeout: 30, maxIdleSockets: 16 };

export class HostSessions implements Disposable {
  readonly #sessions = new Map<string, Bun.FetchSession>();

  of({ origin }: URL): Bun.FetchSession {
    const session = this.#sessions.get(origin) ?? new Bun.FetchSession({ keepAlive });
    this.#sessions.delete(origin);
    this.#sessions.set(origin, session);
    const [oldest] = this.#sessions;
    if (this.#sessions.size > MAX_HOSTS && oldest !== undefined) {
      this.#sessions.delete(oldest[0]);
      // Closes only idle connections of the dropped host; running requests go on.
      oldest[1].close();
    }
    return session;
  }

  /** Closes idle connections. */
  [Symbol.dispose](): void {
    for (const session of this.#sessions.values()) session.close();
    this.#sessions.clear();
  }
}
