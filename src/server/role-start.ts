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
