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
});

/** Number of a build in the server. A build that replaces another one gets a new number. */
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

/** A model as an HTTP process opens it. */
export const frontModelStart = modelStart.extend({
  number: z.int(),
  /** File with the counters of the model. */
  counts: z.string(),
  /** Path of the database of predictions; undefined to keep predictions in memory. */
  store: z.string().optional(),
  storeFault: z.string().optional(),
  /** Whether the server loads the model at its start (default true). */
  isPreloaded: z.boolean().optional(),
  /** Socket of the engine process that runs for the build already. */
  socket: z.string().optional(),
});
export type FrontModelStart = z.infer<typeof frontModelStart>;

/** Questions of a reload, which replaces the build of a name. */
const buildQuestion = z.union([
  // Opens a build beside the one that answers. Answer: `Opening`, once its engine process is connected.
  z.object({ open: frontModelStart }),
  // Gives new predictions to a build, which a process that has just started opens first. Answers when requests reach it.
  z.object({ switchTo: frontModelStart }),
  // Answers when the build that had the name before has ended its predictions, and is closed.
  z.object({ earlierOf: z.string() }),
  // Closes the build of a name that was opened, and has not answered requests.
  z.object({ close: z.string() }),
]);
export type BuildQuestion = z.infer<typeof buildQuestion>;

/** Whether a build could be opened; otherwise the reason. */
export const opening = z.object({ failed: z.string().optional() });
export type Opening = z.infer<typeof opening>;

/** Runs the unfinished predictions of the server that had the port before, and has ended. */
const claimNews = z.object({ claim: z.literal(true) });
export type ClaimNews = z.infer<typeof claimNews>;

/** Messages of an HTTP process to its parent process. */
export const fromFront = z.union([
  z.object({ model, move: z.enum(["need", "load", "unload"]) }),
  // A question: replaces the builds whose tags have moved. Answer: `Reload`.
  z.object({ reload: z.literal(true) }),
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
  buildQuestion,
  claimNews,
  z.object({ done: z.literal(true) }),
]);

export const counterNames = ["items", "bytes", "held", "pictures", "results", "refusals", "pid"] as const;
