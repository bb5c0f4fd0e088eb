/** Messages between a front and its supervisor, and the names of the counters that they share. The supervisor loads no more of a front. */
import { z } from "zod";

/** How the engine process is: where it listens, or why it ended. */
const engineNews = z.union([z.object({ socket: z.string() }), z.object({ ended: z.string() })]);
export type EngineNews = z.infer<typeof engineNews>;

/** A front tells its supervisor that its work is done; the supervisor tells the fronts when that of all is. */
export const allDone = { done: true } as const;

export const fromSupervisor = z.union([engineNews, z.object({ done: z.literal(true) })]);

export const counterNames = ["items", "bytes", "held", "pictures", "results", "pid"] as const;
