/** What the supervisor gives to every process of a server. */
import { z } from "zod";
import type { ServeConfig } from "./config.ts";

export const roleStart = z.object({
  /** The command line of the supervisor, which says where the libraries are. */
  argv: z.array(z.string()),
  /** `repository@sha256:…` */
  reference: z.string(),
  config: z.custom<ServeConfig>((value) => typeof value === "object" && value !== null),
});

/** How the engine process is: where it listens, or why it ended. */
const engineNews = z.union([z.object({ socket: z.string() }), z.object({ ended: z.string() })]);
export type EngineNews = z.infer<typeof engineNews>;

/** A front tells its supervisor that its work is done; the supervisor tells the fronts when that of all is. */
export const allDone = { done: true } as const;

export const fromSupervisor = z.union([engineNews, z.object({ done: z.literal(true) })]);

export const counterNames = ["items", "bytes", "held", "pictures", "results", "pid"] as const;
