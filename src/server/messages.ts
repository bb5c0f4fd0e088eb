/** Messages between the supervisor and the processes of a server. */
import { z } from "zod";
import type { ServeConfig } from "./config.ts";
import { reload } from "./server-control.ts";

const config = z.custom<ServeConfig>((value) => typeof value === "object" && value !== null);

/** The start message of every process. */
export const roleStart = z.object({
  /** The supervisor's command line, which names the places of the libraries. */
  argv: z.array(z.string()),
  config,
});

/** A model in a start message. */
export const modelStart = z.object({
  /** Name in paths and metrics. */
  name: z.string(),
  /** The tag of the reference that the server was given. */
  tag: z.string(),
  /** `repository@sha256:…` */
  reference: z.string(),
  /** Options of this model: the options of the server, overridden by the options of the model. */
  config,
  split: z.object({ name: z.string(), weight: z.number() }).optional(),
  isShadow: z.boolean().optional(),
});

/** Index of a model in the order of the server. */
const model = z.int();

/** Where the engine process of a model listens, why it ended, why it could not be started, or whether it gives no sign of life. */
const engineNews = z.union([
  z.object({ model, socket: z.string() }),
  z.object({ model, ended: z.string() }),
  z.object({ model, failed: z.string() }),
  z.object({ model, isSilent: z.boolean() }),
  z.object({ model, state: z.enum(["unloaded", "loading"]) }),
  // The front answers how long the model has been idle.
  z.object({ model, ask: z.literal("idle") }),
  // The front leaves the engine process, unless it needs it.
  z.object({ model, ask: z.literal("release") }),
]);
export type EngineNews = z.infer<typeof engineNews>;

/** Another server with predictions of the same clients. */
const relative = z.object({
  /** Unix sockets of its fronts, by index. */
  sockets: z.array(z.string()),
  /** The earlier build whose predictions it finishes; undefined for the other server of an upgrade. */
  build: z.string().optional(),
});
export type Relative = z.infer<typeof relative>;

/** The current relatives. A front takes over the predictions of a relative that is missing from the next list. */
export const relativesNews = z.object({
  relatives: z.array(relative),
  /** Reasons why earlier builds do not run, by `repository@sha256:…`. A message has the name of the build, then the reason. */
  unavailable: z.record(z.string(), z.string()),
});
export type RelativesNews = z.infer<typeof relativesNews>;

/** The steps of an upgrade in a front. */
const upgradeNews = z.union([
  // A prepared front opens the port.
  z.object({ listen: z.literal(true) }),
  // The front of the newer server sends new connections to its sockets.
  z.object({ steer: z.object({ first: z.int(), count: z.int() }) }),
  // The front of the older server closes each connection after its next answer; false keeps connections open again.
  z.object({ retire: z.boolean() }),
  // The front of the older server closes the port after its last connection has ended.
  z.object({ closePort: z.literal(true) }),
]);
export type UpgradeNews = z.infer<typeof upgradeNews>;

/** The answer to a front that asked for a newer server. `request` is the number of the question. */
const reloadNews = z.object({ request: z.int(), reload });
export type ReloadNews = z.infer<typeof reloadNews>;

/** Messages of a front to its supervisor. */
export const fromFront = z.union([
  z.object({ prepared: z.literal(true) }),
  z.object({ steered: z.boolean() }),
  z.object({ closed: z.literal(true) }),
  z.object({ model, move: z.enum(["need", "load", "unload"]) }),
  z.object({ model, idleMs: z.number() }),
  z.object({ model, isReleased: z.boolean() }),
  // The answer may wait for the start of the newer server.
  z.object({ request: z.int(), reloadMs: z.number() }),
  z.object({ done: z.literal(true) }),
]);
export type FromFront = z.infer<typeof fromFront>;

/**
 * A stopping front sends this when its accepted predictions have ended. After the last front, the supervisor sends it to
 * every front, and the fronts close the port.
 */
export const allDone = { done: true } as const;

export const fromSupervisor = z.union([
  engineNews,
  relativesNews,
  upgradeNews,
  reloadNews,
  z.object({ done: z.literal(true) }),
]);

export const counterNames = ["items", "bytes", "held", "pictures", "results", "pid"] as const;
