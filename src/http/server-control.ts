/** Requests of an operator to a whole server, through any of its HTTP processes: to end it, or to reload its models. */
import { z } from "zod";

/** Result of a reload. */
export const reload = z.union([
  /** References of the builds that answer now instead of earlier ones; empty if no tag has moved. */
  z.object({ switched: z.array(z.string()) }),
  z.object({ refused: z.string() }),
  z.object({ failed: z.string() }),
]);
export type Reload = z.infer<typeof reload>;

export interface ServerControl {
  /** Ends the server gracefully, as SIGTERM does. */
  drain(): void;
  /** Replaces the builds whose tags have moved, as SIGHUP does. Resolves when the new builds answer. */
  reload(): Promise<Reload>;
}
