/** Messages between the supervisor of a server and its child processes. */
import { z } from "zod";
import { modelStates } from "../base/labels.ts";
import { generatedTag } from "../package/store/reference.ts";
import { hookCall } from "../pipeline/hooks.ts";
import type { ServeConfig } from "./config.ts";

const isObject = (value: unknown) => typeof value === "object" && value !== null;

/** Options of the server, in every process's start message. */
export const serverConfig = z.custom<ServeConfig>(isObject);

/** A build as child processes find it. */
export const modelStart = z.object({
  name: z.string(),
  /** Tag in the reference that the server was started with. */
  tag: z.string(),
  /** The build as `repository@sha256:…`. */
  reference: z.string(),
  /** Folder of the store that has the build; undefined for a build inside the executable. */
  home: z.string().optional(),
  /** The model's own options, which override those of the server. */
  options: z.custom<Partial<ServeConfig>>(isObject),
});
type ModelStart = z.infer<typeof modelStart>;

/** A build in log lines and in the names of processes: `digits:latest@1702ceba1f7d`. */
export function labelOf({ name, tag, reference }: Pick<ModelStart, "name" | "tag" | "reference">): string {
  const digest = generatedTag(reference.slice(reference.indexOf("@") + 1));
  // Several builds of a repository have the tag in their names. A build without another tag has one from its digest.
  const named = name.includes(":") ? name : `${name}:${tag}`;
  return named.endsWith(`:${digest}`) ? named : `${named}@${digest}`;
}

/** A build that the server serves under a name. The supervisor alone changes it. */
export const modelRecord = modelStart.extend({
  /** Number of the build in the server. A build that replaces another one gets a new number. */
  number: z.int(),
  /** File with the counters of the model. */
  counts: z.string(),
  /** Path of the database of predictions; undefined to keep predictions in memory. */
  store: z.string().optional(),
  storeFault: z.string().optional(),
  /** `current`: answers requests; `next`: is opened beside the current build; `earlier`: ends its predictions. */
  stage: z.enum(["next", "current", "earlier"]),
  state: z.enum(modelStates),
  /** Whether the server loads the model at its start. Requests for it are refused until that is done. */
  isStarting: z.boolean(),
  /** Why the last load failed. */
  reason: z.string().optional(),
  /** Whether the model is unloaded because a client asked for it, and not because it was idle. */
  isUnloadedByClient: z.boolean(),
  /** Socket of the engine process; undefined while it does not run. */
  socket: z.string().optional(),
  /** Why the previous engine process ended, to follow "the engine process". */
  ended: z.string().optional(),
});
export type ModelRecord = z.infer<typeof modelRecord>;

/** The state of the server. Each front gets it at its start and after each change. */
export const snapshot = z.object({
  /** Grows with each snapshot. */
  version: z.int(),
  models: z.array(modelRecord),
  /** Whether no other server runs predictions of the stores. */
  hasClaim: z.boolean(),
  /** Whether the predictions of all fronts have ended, so that the fronts close the port. */
  isDone: z.boolean(),
});
export type Snapshot = z.infer<typeof snapshot>;

/** The start message of a front. */
export const frontStart = z.object({
  config: serverConfig,
  port: z.int(),
  /** Admin port that all fronts share; undefined without one. */
  adminPort: z.int().optional(),
  index: z.int(),
  count: z.int(),
  /** Whether other fronts already answer at the port, so that this one opens it only when it is ready. */
  listensLate: z.boolean(),
  /** Whether an earlier process with this index was ready. */
  wasReady: z.boolean(),
  /** Unix sockets of all fronts, by index. */
  sockets: z.array(z.string()),
  /** File with the counters of unfinished work and memory, and the process ids, that all fronts share. */
  counters: z.string(),
  /** File with counters of the event loop and of requests that no model answers. */
  counts: z.string(),
  snapshot,
  /** Name of the server in the stores of predictions. */
  server: z.string(),
  /** Path of the file of the `HookCell`. */
  hookCell: z.string(),
  /** Calls of hooks that blocked fronts of this server. */
  guilty: z.array(hookCall),
  /** Whether one of these calls blocked the previous process with this index. */
  isCauseKnown: z.boolean(),
});
export type FrontStart = z.infer<typeof frontStart>;

const number = z.int();

/** Questions of the supervisor to a front. */
export const toFront = z.union([
  // Answer: the numbers of draining builds that the front still needs.
  z.object({ snapshot }),
  // Answer: milliseconds since the front last had a prediction of the build.
  z.object({ idle: number }),
  // Answer: `Opening`, when the `next` build is open or could not be opened.
  z.object({ opened: number }),
  // Answers when the `earlier` build has ended its predictions, and is closed.
  z.object({ ended: number }),
]);
export type ToFront = z.infer<typeof toFront>;

/** Whether a build could be opened; otherwise the reason. */
export const opening = z.object({ failed: z.string().optional() });
export type Opening = z.infer<typeof opening>;

/** Messages of a front to the supervisor. */
export const fromFront = z.union([
  // Loads a model for a prediction (`need`), or loads or unloads it for a client. Answers when that is done or has failed.
  z.object({ number, move: z.enum(["need", "load", "unload"]) }),
  // A question: replaces the builds whose tags have moved. Answer: `Reload`.
  z.object({ reload: z.literal(true) }),
  // The predictions of a stopping front have ended.
  z.object({ done: z.literal(true) }),
]);
export type FromFront = z.infer<typeof fromFront>;

export const counterNames = ["items", "bytes", "held", "pictures", "results", "pid"] as const;
