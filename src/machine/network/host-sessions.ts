/**
 * Connections that are kept open, each for one host name. Requests go to addresses, and Bun keeps connections by address: two names on
 * one address would share a connection, and what one of their servers sends too much would be read as the other's answer.
 */

/** Hosts whose connections are kept; the one asked last stays longest. */
const MAX_HOSTS = 64;
const keepAlive = { idleTimeout: 30, maxIdleSockets: 16 };

export class HostSessions implements Disposable {
  readonly #sessions = new Map<string, Bun.FetchSession>();

  /** @param url whose scheme, name and port the connections are for */
  of({ origin }: URL): Bun.FetchSession {
    const session = this.#sessions.get(origin) ?? new Bun.FetchSession({ keepAlive });
    this.#sessions.delete(origin);
    this.#sessions.set(origin, session);
    const [oldest] = this.#sessions;
    if (this.#sessions.size > MAX_HOSTS && oldest !== undefined) {
      this.#sessions.delete(oldest[0]);
      // Requests that go on end as they would have.
      oldest[1].close();
    }
    return session;
  }

  /** Closes the idle connections. */
  [Symbol.dispose](): void {
    for (const session of this.#sessions.values()) session.close();
    this.#sessions.clear();
  }
}
