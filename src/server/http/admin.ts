/** The admin port: metrics, the end and the upgrade of the server, changes of the model repository. With it, the public port has none of them. */
import type { Hono } from "hono";
import type { ServerControl } from "../server-control.ts";
import { ProblemError } from "./problem.ts";
import { type Check, contextOf } from "./request.ts";
import { waitMsOf } from "./request-headers.ts";
import type { Lifecycle } from "./routes/health.ts";

const INDEX = "/v2/repository/index";

/** Paths that only the admin port has, if there is one. */
export function isAdminPath(path: string): boolean {
  return path === "/metrics" || changesServer(path);
}

/** Paths that stop or replace the server, or change its models. */
export function changesServer(path: string): boolean {
  return path === "/drain" || path === "/reload" || (path.startsWith("/v2/repository/") && path !== INDEX);
}

/** Answers 404 to paths of the other port. For servers with an admin port. */
export const separatePorts: Check = (c) => {
  const { path, isAdmin } = contextOf(c);
  const isServed = isAdmin ? isAdminPath(path) || path === INDEX || path.startsWith("/health/") : !isAdminPath(path);
  if (isServed) return;
  const detail = `there is nothing at ${path}; ${isAdmin ? "the server's other port" : "the admin port"} may have it`;
  throw new ProblemError({ status: 404, code: "not_found", detail });
};

export interface ControlOptions {
  readonly lifecycle: Lifecycle;
  readonly control: ServerControl;
  /** Lets a request wait for longer than the idle timeout. */
  readonly onHold: (request: Request, isHeld: boolean) => void;
}

/** POST /drain: the server finishes accepted work and ends. POST /reload: a newer server takes over from it. */
export function addControlRoutes(app: Pick<Hono, "post">, { lifecycle, control, onHold }: ControlOptions): void {
  app.post("/drain", (c) => {
    const { phase } = lifecycle;
    // A second signal would end the server at once.
    if (phase === "ready") control.drain();
    return c.json({ status: phase === "leaving" ? phase : "draining" }, 202);
  });
  app.post("/reload", async (c) => {
    if (lifecycle.phase !== "ready") throw notUpgraded("the server is stopping");
    onHold(c.req.raw, true);
    const answer = await control
      .reload(waitMsOf(c.req.header("Prefer") ?? null))
      .finally(() => onHold(c.req.raw, false));
    if ("refused" in answer) throw notUpgraded(answer.refused);
    if ("failed" in answer) {
      const detail = `the newer server did not start, and this one goes on: ${answer.failed}`;
      throw new ProblemError({ status: 500, code: "upgrade_failed", detail });
    }
    const { pid, isReady } = answer;
    if (!isReady) return c.json({ status: "starting", pid }, 202);
    // This server ends after its last connection.
    return c.json({ status: "ready", pid }, 200, { Connection: "close" });
  });
}

function notUpgraded(detail: string): ProblemError {
  return new ProblemError({ status: 409, code: "upgrade_refused", detail });
}
