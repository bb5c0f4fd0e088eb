/** Messages between the parent process (supervisor) of a server and its child processes. */
import { z } from "zod";
import type { ServeConfig } from "./config.ts";

const config = z.custom<ServeConfig>((value) => typeof value === "object" && value !== null);

/** Fields of every process's start message. */
export const roleStart = z.object({
  /** The parent process's command line, which names the locations of the libraries. */
  argv: z.array(z.string()),
  config,
});

export const modelStart = z.object({
  name: z.string(),
  /** Tag in the reference that the server was started with. */
  tag: z.string(),
  /** The build as `repository@sha256:…`. */
  reference: z.string(),
  /** Folder of the store that has the build; undefined for a build inside the executable. */
  home: z.string().optional(),
  /** Options of the server, overridden by the model's own options. */
  config,
  split: z.object({ name: z.string(), weight: z.number() }).optional(),
  isShadow: z.boolean().optional(),
});

/** Index of a model in the server's list. */
const model = z.int();

/**
 * News about the engine process of a model: its socket, why it ended or could not be started, whether it answers, or
 * whether the model is unloaded or being loaded.
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
  // Answer: milliseconds since the HTTP process last had a prediction of the model.
  z.object({ model, ask: z.literal("idle") }),
  // Disconnects from the engine process if no prediction of the model runs. Answer: whether it has disconnected.
  z.object({ model, ask: z.literal("release") }),
]);
export type EngineQuestion = z.infer<typeof engineQuestion>;

/** Another server with predictions of the same clients, such as the older server of an upgrade. */
const relative = z.object({
  /** Unix sockets of the server's HTTP processes, by index. */
  sockets: z.array(z.string()),
  /**
   * Reference of an earlier build, whose predictions the server finishes; undefined for the other server of an upgrade.
   */
  build: z.string().optional(),
});
export type Relative = z.infer<typeof relative>;

/**
 * All other servers with predictions of the same clients. If a server is missing from the next list, the HTTP processes
 * continue its predictions, unless this list has the other server of an upgrade.
 */
export const relativesNews = z.object({
  relatives: z.array(relative),
  /**
   * Why earlier builds do not run, by `repository@sha256:…`. Each reason completes the sentence "digits:v1, which …".
   */
  unavailable: z.record(z.string(), z.string()),
});
export type RelativesNews = z.infer<typeof relativesNews>;

/** Instructions to an HTTP process during an upgrade. */
const upgradeNews = z.union([
  // Allows the process to open the port.
  z.object({ listen: z.literal(true) }),
  // Older server: closes each connection after its next answer; false keeps connections open again.
  z.object({ retire: z.boolean() }),
]);
export type UpgradeNews = z.infer<typeof upgradeNews>;

/** Questions to an HTTP process while a newer server replaces an older one. */
const upgradeQuestion = z.union([
  // Newer server: makes the system send new connections to this server's sockets. Answer: whether the system can do so.
  z.object({ steer: z.object({ first: z.int(), count: z.int() }) }),
  // Older server: closes the port as soon as it has no connection, and then answers.
  z.object({ closePort: z.literal(true) }),
]);
export type UpgradeQuestion = z.infer<typeof upgradeQuestion>;

/** Messages of an HTTP process to its parent process. */
export const fromFront = z.union([
  z.object({ prepared: z.literal(true) }),
  z.object({ model, move: z.enum(["need", "load", "unload"]) }),
  // A question: starts a newer server. The answer is a `Reload`, and waits up to `reloadMs` for the newer server.
  z.object({ reloadMs: z.number() }),
  z.object({ done: z.literal(true) }),
]);
export type FromFront = z.infer<typeof fromFront>;

/**
 * A stopping HTTP process sends this when its predictions have ended. After the last one, the parent process sends it
 * to all, and they close the port.
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

export const counterNames = ["items", "bytes", "held", "pictures", "results", "refusals", "pid"] as const;
