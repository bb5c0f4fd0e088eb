import { Hono } from "hono";
import type { Refusal } from "../../../base/labels.ts";
import type { ServeConfig } from "../../config.ts";
import type { Metrics } from "../../metrics/metrics.ts";
import { prometheusType } from "../../metrics/prometheus-text.ts";
import { addPageRoutes } from "../../page/page.ts";
import { refuseOtherHosts } from "../browser-guards.ts";
import { ProblemError, problemOf, problemResponse } from "../problem.ts";
import { pathOf } from "../request.ts";
import type { Siblings } from "../siblings.ts";

/**
 * Where the server stands in its life; routes answer by it. A server that is `leaving` still takes work, from routers that have not learnt of it
 * yet; one that is `draining` finishes what it has.
 */
export type Phase = "starting" | "ready" | "leaving" | "draining";

/** What a server lacks that takes predictions: it cannot end them now. */
export type Hindrance = "engine" | "queue" | "pictures" | "store";

/** Why a server is not ready. */
export type Unready = Exclude<Phase, "ready"> | Hindrance;

export class Lifecycle {
  phase: Phase = "starting";
  hindrance: () => Hindrance | undefined = () => undefined;

  /** Undefined where the server is ready. */
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

export function addMetricsRoute(app: Pick<Hono, "get">, metrics: Metrics, siblings: Siblings | undefined): void {
  app.get("/metrics", async (c) => {
    const text = metrics.text((await siblings?.metrics()) ?? []);
    return c.body(text, 200, { "Content-Type": prometheusType });
  });
}

/**
 * Answers while there is no model yet: live, and 503 to everything else.
 * @param name of the model whose page browsers get, which waits for it
 */
export function createStartingApp(lifecycle: Lifecycle, name?: string): Hono {
  const app = new Hono({ getPath: pathOf });
  addHealthRoutes(app, lifecycle);
  if (name !== undefined) addPageRoutes(app, { name, description: "", isReady: false });
  app.notFound((c) => problemResponse(c, notReady("starting").problem));
  app.onError((error, c) => problemResponse(c, problemOf(error)));
  return app;
}

interface Reason {
  readonly detail: string;
  readonly refusal: Refusal;
}

const reasons: Readonly<Record<Unready, Reason>> = {
  starting: { detail: "the model is being set up", refusal: "drain" },
  engine: { detail: "the process that runs the model has ended and is starting again", refusal: "engine" },
  queue: { detail: "the queue of the replicas cannot be used", refusal: "replicas" },
  pictures: { detail: "no picture has been decoded for long", refusal: "engine" },
  store: { detail: "the file of the predictions was deleted or replaced", refusal: "store" },
  leaving: { detail: "the server is about to stop", refusal: "drain" },
  draining: { detail: "the server is stopping", refusal: "drain" },
};

function notReady(unready: Unready): ProblemError {
  return new ProblemError({ status: 503, code: "not_ready", headers: { "Retry-After": "1" }, ...reasons[unready] });
}

export interface WorkerAppOptions {
  readonly metrics: Metrics;
  readonly siblings: Siblings | undefined;
  readonly lifecycle: Lifecycle;
  readonly config: Pick<ServeConfig, "allowedHosts" | "host">;
}

export function createWorkerApp({ metrics, siblings, lifecycle, config }: WorkerAppOptions): Hono {
  const app = new Hono({ getPath: pathOf });
  app.use(refuseOtherHosts(config));
  addHealthRoutes(app, lifecycle);
  addMetricsRoute(app, metrics, siblings);
  app.notFound((c) => {
    const detail = "this replica is a worker (--role worker), which has /health and /metrics only; ask a front";
    return problemResponse(c, { status: 404, code: "not_found", detail });
  });
  app.onError((error, c) => problemResponse(c, problemOf(error)));
  return app;
}
