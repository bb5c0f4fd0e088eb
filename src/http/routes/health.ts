/** Liveness, readiness and metrics, and the app that stands in while the model is set up. */
import { Hono } from "hono";
import type { Metrics } from "../../metrics.ts";
import { addPageRoutes } from "../../page/page.ts";
import type { Lifecycle, Phase } from "../lifecycle.ts";
import { pathOf } from "../path.ts";
import { ProblemError, problemOf, problemResponse } from "../problem.ts";
import type { Siblings } from "../siblings.ts";

/** @param isReady whether the engine runs items and pictures are decoded now, once the server takes them */
export function addHealthRoutes(app: Pick<Hono, "get">, lifecycle: Lifecycle, isReady: () => boolean): void {
  app.get("/health/live", (c) => c.json({ status: "live" }));
  app.get("/health/ready", (c) => {
    if (lifecycle.phase === "ready" && isReady()) return c.json({ status: "ready" });
    throw unready(lifecycle);
  });
}

export function addMetricsRoute(app: Pick<Hono, "get">, metrics: Metrics, siblings: Siblings | undefined): void {
  app.get("/metrics", async (c) => {
    const text = await metrics.text((await siblings?.metrics()) ?? []);
    return c.body(text, 200, { "Content-Type": metrics.contentType });
  });
}

/**
 * Answers while there is no model yet: live, and 503 to everything else.
 * @param name of the model whose page browsers get, which waits for it
 */
export function createStartingApp(lifecycle: Lifecycle, name?: string): Hono {
  const app = new Hono({ getPath: pathOf });
  addHealthRoutes(app, lifecycle, () => false);
  if (name !== undefined) addPageRoutes(app, { name, description: "", isReady: false });
  app.notFound((c) => problemResponse(c, unready(lifecycle).problem));
  app.onError((error, c) => problemResponse(c, problemOf(error)));
  return app;
}

const reasons: Readonly<Record<Phase, string>> = {
  starting: "the model is being set up",
  ready:
    "the process that runs the model has ended and is starting again, the queue of the replicas cannot be used, or no picture has been decoded for long",
  leaving: "the server is about to stop",
  draining: "the server is stopping",
};

function unready({ phase }: Lifecycle): ProblemError {
  return new ProblemError({
    status: 503,
    code: "not_ready",
    detail: reasons[phase],
    headers: { "Retry-After": "1" },
    refusal: phase === "ready" ? "engine" : "drain",
  });
}
