/** The end and the upgrade of a whole server, as an operator asks a front for them. */
import { z } from "zod";

/** Result of a request to start a newer server. */
export const reload = z.union([
  // The newer server has taken over, or still starts.
  z.object({ pid: z.int().optional(), isReady: z.boolean() }),
  z.object({ refused: z.string() }),
  z.object({ failed: z.string() }),
]);
export type Reload = z.infer<typeof reload>;

/** A newer server. Without fields, another process starts it. */
export interface StartedServer {
  readonly pid?: number;
  readonly exited?: Promise<number>;
}

export interface ServerControl {
  /** Begins the end of the server, as SIGTERM does. */
  drain(): void;
  /** Starts a newer server, as SIGHUP does, and waits for its start. */
  reload(waitMs: number): Promise<Reload>;
}
