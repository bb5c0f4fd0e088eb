/** Requests of an operator to a whole server, through any of its HTTP processes: to end it, or to start a newer one. */
import { z } from "zod";

/** Result of a request to start a newer server. */
export const reload = z.union([
  // `isReady`: the newer server has taken over; otherwise it still starts.
  z.object({ pid: z.int().optional(), isReady: z.boolean() }),
  z.object({ refused: z.string() }),
  z.object({ failed: z.string() }),
]);
export type Reload = z.infer<typeof reload>;

/** A newer server that starts. The first process of a container starts it if both fields are undefined. */
export interface StartedServer {
  readonly pid?: number;
  readonly exited?: Promise<number>;
}

export interface ServerControl {
  /** Ends the server gracefully, as SIGTERM does. */
  drain(): void;
  /** Starts a newer server, as SIGHUP does, and waits for it up to `waitMs`. */
  reload(waitMs: number): Promise<Reload>;
}
