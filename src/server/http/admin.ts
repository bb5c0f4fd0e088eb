/** The admin port: metrics, the end of the server, changes of the model repository. With it, the public port has none of them. */
import type { Hono, MiddlewareHandler } from "hono";
import { ProblemError } from "./problem.ts";
import { contextOf } from "./request.ts";
import type { Lifecycle } from "./routes/health.ts";

const INDEX = "/v2/repository/index";

/** Paths that only the admin port has, if there is one. */
export function isAdminPath(path: string): boolean {
  return path === "/metrics" || changesServer(path);
}

/** Paths that stop the server or change its models. */
export function changesServer(path: string): boolean {
  return path === "/drain" || (path.startsWith("/v2/repository/") && path !== INDEX);
}

/** Answers 404 to paths of the other port. */
export function separatePorts(hasAdminPort: boolean): MiddlewareHandler {
  return async (c, next) => {
    const { path, isAdmin } = contextOf(c);
    const isServed = isAdmin
      ? isAdminPath(path) || path === INDEX || path.startsWith("/health/")
      : !hasAdminPort || !isAdminPath(path);
    if (isServed) return next();
    const detail = `there is nothing at ${path}; ${isAdmin ? "the server's other port" : "the admin port"} may have it`;
    throw new ProblemError({ status: 404, code: "not_found", detail });
  };
}

export interface DrainOptions {
  readonly lifecycle: Lifecycle;
  /** Begins the end of the server, as SIGTERM does. */
  readonly drain: () => void;
}

/** POST /drain: the server finishes accepted work and ends. */
export function addDrainRoute(app: Pick<Hono, "post">, { lifecycle, drain }: DrainOptions): void {
  app.post("/drain", (c) => {
    const { phase } = lifecycle;
    // A second signal would end the server at once.
    if (phase === "ready") drain();
    return c.json({ status: phase === "leaving" ? phase : "draining" }, 202);
  });
}
