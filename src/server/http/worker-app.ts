/** What a worker of replicas answers at its port: whether it is well, and what it counts. */
import { Hono } from "hono";
import type { ServeConfig } from "../config.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { refuseOtherHosts } from "./allowed-hosts.ts";
import type { Lifecycle } from "./lifecycle.ts";
import { pathOf } from "./path.ts";
import { problemOf, problemResponse } from "./problem.ts";
import { addHealthRoutes, addMetricsRoute } from "./routes/health.ts";
import type { Siblings } from "./siblings.ts";

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
