/** Liveness and readiness, and the app that stands in while the model is set up. */
import { Hono } from "hono";
import type { Lifecycle } from "../lifecycle.ts";
import { pathOf } from "../path.ts";
import { ProblemError, problemOf, problemResponse } from "../problem.ts";

export function addHealthRoutes(app: Pick<Hono, "get">, lifecycle: Lifecycle): void {
  app.get("/health/live", (c) => c.json({ status: "live" }));
  app.get("/health/ready", (c) => {
    if (lifecycle.phase === "ready") return c.json({ status: "ready" });
    throw unready(lifecycle);
  });
}

/** Answers while there is no model yet: live, and 503 to everything else. */
export function createStartingApp(lifecycle: Lifecycle): Hono {
  const app = new Hono({ getPath: pathOf });
  addHealthRoutes(app, lifecycle);
  app.notFound((c) => problemResponse(c, unready(lifecycle).problem));
  app.onError((error, c) => problemResponse(c, problemOf(error)));
  return app;
}

function unready({ phase }: Lifecycle): ProblemError {
  return new ProblemError({
    status: 503,
    code: "not_ready",
    detail: phase === "starting" ? "the model is being set up" : "the server is stopping",
    headers: { "Retry-After": "1" },
  });
}
