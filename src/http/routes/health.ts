/** The state of the server and of each model, and the routes of health checks and metrics. */
import type { Context, Hono } from "hono";
import type { Refusal, Unready } from "../../base/labels.ts";
import type { MetricsText } from "../metrics.ts";
import { ProblemError } from "../problem.ts";
import { type Check, contextOf, modelOf } from "../request.ts";
import type { Siblings } from "../siblings.ts";

const prometheusType = "text/plain; version=0.0.4; charset=utf-8";

/**
 * Phase of the server, for health checks. In `draining`, it only finishes accepted requests.
 */
export type Phase = "starting" | "restarting" | "ready" | "draining";

/** Why a server in the phase `ready` cannot finish predictions. */
export type Hindrance = Exclude<Unready, Phase>;

export class Lifecycle {
  readonly #server: Lifecycle | undefined;
  #phase: Phase = "starting";
  hindrance: () => Hindrance | undefined = () => undefined;

  /** Without `server`, this is the state of the whole server; else the state of one model, whose phase is the phase of `server`. */
  constructor(server?: Lifecycle) {
    this.#server = server;
  }

  get phase(): Phase {
    return this.#server?.phase ?? this.#phase;
  }

  set phase(phase: Phase) {
    this.#phase = phase;
  }

  /** The phase before the server is ready; undefined afterwards. */
  get pending(): "starting" | "restarting" | undefined {
    return this.phase === "starting" || this.phase === "restarting" ? this.phase : undefined;
  }

  /** Why the server is not ready; undefined if it is ready. */
  get unready(): Unready | undefined {
    return this.phase === "ready" ? this.hindrance() : this.phase;
  }
}

/** Why the model in the path is not ready, or the server if the path names no model. Undefined if it is ready. */
export function unreadyOf(c: Context, lifecycle: Lifecycle): Unready | undefined {
  const { modelPath, served } = contextOf(c);
  if (modelPath === "" || served === undefined) return lifecycle.unready;
  // Throws the fault of a broken model.
  if (lifecycle.pending === undefined) modelOf(c);
  return served.unready;
}

export function addHealthRoutes(app: Pick<Hono, "get">, lifecycle: Lifecycle): void {
  app.get("/health/live", (c) => c.json({ status: "live" }));
  app.get("/health/ready", (c) => {
    const unready = unreadyOf(c, lifecycle);
    if (unready === undefined) return c.json({ status: "ready" });
    throw notReady(unready);
  });
}

/** Paths that are answered while the server starts: health checks, static files, and for browsers the page. */
const startingPath = /^\/(?:health\/\w+|v2\/health\/\w+|favicon\.ico|demo\/assets\/.*)$/;

/** Refuses requests until the server is ready. @param isPage whether the request is for a page that waits for the model */
export function refuseUntilReady(lifecycle: Lifecycle, isPage: (c: Context) => boolean): Check {
  return (c) => {
    const { pending } = lifecycle;
    if (pending !== undefined && !startingPath.test(contextOf(c).path) && !isPage(c)) throw notReady(pending);
  };
}

export function addMetricsRoute(app: Pick<Hono, "get">, metrics: MetricsText, siblings: Siblings | undefined): void {
  app.get("/metrics", async (c) => {
    const text = metrics.text((await siblings?.metrics()) ?? []);
    return c.body(text, 200, { "Content-Type": prometheusType });
  });
}

interface Reason {
  readonly detail: string;
  readonly refusal: Refusal;
}

const reasons: Readonly<Record<Unready, Reason>> = {
  starting: { detail: "the model is being set up", refusal: "drain" },
  restarting: { detail: "the process that answers HTTP requests has ended and is starting again", refusal: "drain" },
  engine: { detail: "the process that runs the model has ended and is starting again", refusal: "engine" },
  silent: { detail: "the process that runs the model is stopped, or hangs", refusal: "engine" },
  queue: { detail: "the queue of the replicas cannot be used", refusal: "replicas" },
  full: { detail: "the queue of the replicas is full: Redis has reached its maxmemory", refusal: "replicas" },
  pictures: { detail: "the decoding of pictures has stalled", refusal: "engine" },
  store: { detail: "the file of the predictions was deleted or replaced", refusal: "store" },
  disk: { detail: "predictions cannot be stored now: a write to their file has failed", refusal: "store" },
  draining: { detail: "the server is stopping", refusal: "drain" },
};

export function notReady(unready: Unready): ProblemError {
  return new ProblemError({ code: "not_ready", headers: { "Retry-After": "1" }, ...reasons[unready] });
}
