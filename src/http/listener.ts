/** The port: opened at once, with an app that is exchanged when the model is ready. */
import type { ServeConfig } from "../config.ts";
import { messageOf, SconceError } from "../errors.ts";

export type Fetch = (request: Request) => Response | Promise<Response>;

export interface ListenOptions extends Pick<ServeConfig, "port" | "host" | "idleTimeout"> {
  /** Lets several processes of one server listen on the port. By default Bun lets any, and each client meets one of them. */
  readonly isShared?: boolean;
}

/** @throws SconceError `address_in_use` */
export function listen(
  { port, host, idleTimeout, isShared = false }: ListenOptions,
  fetch: Fetch,
): Bun.Server<undefined> {
  try {
    return Bun.serve({
      port,
      hostname: host,
      idleTimeout,
      // Bun answers larger bodies itself, with nothing in it; the routes answer with a problem.
      maxRequestBodySize: Number.MAX_SAFE_INTEGER,
      development: false,
      reusePort: isShared,
      fetch,
    });
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    const reason =
      code === "EADDRINUSE"
        ? "is in use by another program; choose another with --port"
        : `cannot be listened on (${messageOf(error)}); choose another with --port or --host`;
    throw new SconceError("address_in_use", `port ${port} of ${host} ${reason}`, { cause: error });
  }
}
