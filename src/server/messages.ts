/** Messages between the supervisor (parent process) of a server and its child processes. */
import { z } from "zod";
import type { ServeConfig } from "./config.ts";

const config = z.custom<ServeConfig>((value) => typeof value === "object" && value !== null);

/** Fields of every process's start message. */
export const roleStart = z.object({
  /** The supervisor's command line, which names the locations of the libraries. */
  argv: z.array(z.string()),
  config,
});

/** A model in a start message. */
export const modelStart = z.object({
  /** Name in paths and metrics. */
  name: z.string(),
  /** Tag in the reference that the server was started with. */
  tag: z.string(),
  /** The build as `repository@sha256:…`. */
  reference: z.string(),
  /** Options of the server, with the model's own options in front. */
  config,
  split: z.object({ name: z.string(), weight: z.number() }).optional(),
  isShadow: z.boolean().optional(),
});

/** Index of a model in the server's list. */
const model = z.int();

/**
 * News about the engine process of a model: where it listens, why it ended or could not be started, or whether it
 * answers.
 */
const engineNews = z.union([
  z.object({ model, socket: z.string() }),
  z.object({ model, ended: z.string() }),
  z.object({ model, failed: z.string() }),
  z.object({ model, isSilent: z.boolean() }),
  // isByClient: a client asked for the unload.
  z.object({ model, state: z.enum(["unloaded", "loading"]), isByClient: z.boolean() }),
]);
export type EngineNews = z.infer<typeof engineNews>;

/** Questions about the engine process of a model. */
const engineQuestion = z.union([
  // Answer: milliseconds for which the front has had no prediction of the model.
  z.object({ model, ask: z.literal("idle") }),
  // The front disconnects from the engine process, unless it has a prediction. Answer: whether it has disconnected.
  z.object({ model, ask: z.literal("release") }),
]);
export type EngineQuestion = z.infer<typeof engineQuestion>;

/** Another server that has predictions of the same clients. */
const relative = z.object({
  /** Unix sockets of its HTTP processes, by index. */
  sockets: z.array(z.string()),
  /** Reference of an earlier build, whose predictions it finishes; undefined for the other server of an upgrade. */
  build: z.string().optional(),
});
export type Relative = z.infer<typeof relative>;

/**
 * All relatives: servers that have predictions of the same clients. A front continues the predictions of a relative
 * that is missing from the next list.
 */
export const relativesNews = z.object({
  relatives: z.array(relative),
  /** Why earlier builds do not run, by `repository@sha256:…`; completes "digits:v1, which …". */
  unavailable: z.record(z.string(), z.string()),
});
export type RelativesNews = z.infer<typeof relativesNews>;

/** Instructions to a front during an upgrade. */
const upgradeNews = z.union([
  // A prepared front may open the port.
  z.object({ listen: z.literal(true) }),
  // Older server: the front closes each connection after its next answer; false keeps connections open again.
  z.object({ retire: z.boolean() }),
]);
export type UpgradeNews = z.infer<typeof upgradeNews>;

/** Questions to a front during an upgrade. */
const upgradeQuestion = z.union([
  // Newer server: the system sends new connections to this server's sockets. Answer: whether the system can do so.
  z.object({ steer: z.object({ first: z.int(), count: z.int() }) }),
  // Older server: the front closes the port as soon as it has no connection, and then answers.
  z.object({ closePort: z.literal(true) }),
]);
export type UpgradeQuestion = z.infer<typeof upgradeQuestion>;

/** Messages of a front to its supervisor. */
export const fromFront = z.union([
  z.object({ prepared: z.literal(true) }),
  z.object({ model, move: z.enum(["need", "load", "unload"]) }),
  // A question: starts a newer server. The answer is a `Reload`, and waits up to `reloadMs` for the newer server.
  z.object({ reloadMs: z.number() }),
  z.object({ done: z.literal(true) }),
]);
export type FromFront = z.infer<typeof fromFront>;

/**
 * A stopping front sends this when its accepted predictions have ended. After the last front, the supervisor sends it
 * to every front, and the fronts close the port.
 */
export const allDone = { done: true } as const;

export const fromSupervisor = z.union([
  engineNews,
  engineQuestion,
  relativesNews,
  upgradeNews,
  upgradeQuestion,
  z.object({ done: z.literal(true) }),
]);

export const counterNames = ["items", "bytes", "held", "pictures", "results", "pid"] as const;
