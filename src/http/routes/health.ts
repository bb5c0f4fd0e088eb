import { Hono } from "hono";
import type { Refusal, Unready } from "../../base/labels.ts";
import { addStartingV2 } from "../apis/v2/starting.ts";
import type { MetricsText } from "../metrics.ts";
import type { ApiName } from "../options.ts";
import { addPageRoutes } from "../page/page.ts";
import { ProblemError, problemOf, problemResponse } from "../problem.ts";
import { pathsBelow } from "../request.ts";
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

  /** Why the server is not ready; undefined if it is ready. */
  get unready(): Unready | undefined {
    return this.phase === "ready" ? this.hindrance() : this.phase;
  }
}

export function addHealthRoutes(app: Pick<Hono, "get">, lifecycle: Lifecycle): void {
  app.get("/health/live", (c) => c.json({ status: "live" }));
  app.get("/health/ready", (c) => {
    const { unready } = lifecycle;
    if (unready === undefined) return c.json({ status: "ready" });
    throw notReady(unready);
  });
}

export function addMetricsRoute(app: Pick<Hono, "get">, metrics: MetricsText, siblings: Siblings | undefined): void {
  app.get("/metrics", async (c) => {
    const text = metrics.text((await siblings?.metrics()) ?? []);
    return c.body(text, 200, { "Content-Type": prometheusType });
  });
}

export interface StartingOptions {
  /** Name of the model, for a page that waits for the model. Without a name, browsers get the same 503 as other clients. */
  readonly name?: string | undefined;
  readonly basePath?: string;
  /** Served APIs of other servers, whose clients expect another format of errors. */
  readonly api?: readonly ApiName[];
}

/** The app until the model is loaded: health checks, a page that waits for the model, and 503 for other requests. */
export function createStartingApp(lifecycle: Lifecycle, { name, basePath = "", api = [] }: StartingOptions = {}): Hono {
  const app = new Hono({ getPath: pathsBelow(basePath) });
  const unready = lifecycle.unready ?? "starting";
  addHealthRoutes(app, lifecycle);
  if (name !== undefined) addPageRoutes(app, { name, description: "", isReady: false });
  if (api.includes("v2")) addStartingV2(app, reasons[unready].detail);
  app.notFound((c) => problemResponse(c, notReady(unready).problem));
  app.onError((error, c) => problemResponse(c, problemOf(error)));
  return app;
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

function notReady(unready: Unready): ProblemError {
  return new ProblemError({ code: "not_ready", headers: { "Retry-After": "1" }, ...reasons[unready] });
}
