/** Adds the routes that stop and upgrade the server. On a server with an admin port, keeps them, the metrics and changes of models on that port. */
import type { Hono } from "hono";
import type { ServerControl } from "../server-control.ts";
import { ProblemError } from "./problem.ts";
import { type Check, contextOf } from "./request.ts";
import { waitMsOf } from "./request-headers.ts";
import type { Lifecycle } from "./routes/health.ts";

/** The path of the index of models. Triton's clients read it by POST. */
export const INDEX = "/v2/repository/index";

/** Whether only the admin port serves the path, on a server that has an admin port. */
function isAdminPath(path: string): boolean {
  return path === "/metrics" || changesServer(path);
}

/** Whether requests to the path stop or replace the server, or change its models. */
export function changesServer(path: string): boolean {
  return path === "/drain" || path === "/reload" || (path.startsWith("/v2/repository/") && path !== INDEX);
}

/** Answers 404 for public paths on the admin port, and for admin paths on the public port. Both ports have health checks and the index of models. */
export const separatePorts: Check = (c) => {
  const { path, isAdmin } = contextOf(c);
  const isServed = isAdmin ? isAdminPath(path) || path === INDEX || path.startsWith("/health/") : !isAdminPath(path);
  if (isServed) return;
  const detail = `there is nothing at ${path}; ${isAdmin ? "the server's other port" : "the admin port"} may have it`;
  throw new ProblemError({ code: "not_found", detail });
};

export interface ControlOptions {
  readonly lifecycle: Lifecycle;
  readonly control: ServerControl;
  /** Called with true to exempt the request's connection from the idle timeout, and with false when the request ends. */
  readonly onHold: (request: Request, isHeld: boolean) => void;
}

/** POST /drain: the server finishes accepted requests and exits. POST /reload: starts a newer server, which takes over the port. */
export function addControlRoutes(app: Pick<Hono, "post">, { lifecycle, control, onHold }: ControlOptions): void {
  app.post("/drain", (c) => {
    // Calls drain() only once: a second call would end the server at once, like a second SIGTERM.
    if (lifecycle.phase === "ready") control.drain();
    return c.json({ status: "draining" }, 202);
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
      throw new ProblemError({ code: "upgrade_failed", detail });
    }
    const { pid, isReady } = answer;
    if (!isReady) return c.json({ status: "starting", pid }, 202);
    // Closes the connection, because this server exits when its last connection closes.
    return c.json({ status: "ready", pid }, 200, { Connection: "close" });
  });
}

function notUpgraded(detail: string): ProblemError {
  return new ProblemError({ code: "upgrade_refused", detail });
}
