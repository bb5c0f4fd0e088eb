/** The route that reloads the models of the server, and the paths of the admin port. */
import type { Hono } from "hono";
import { z } from "zod";
import { ProblemError } from "./problem.ts";
import { contextOf } from "./request.ts";
import type { Lifecycle } from "./routes/health.ts";

/** The path of the index of models. Triton's clients read it by POST. */
export const INDEX = "/v2/repository/index";

/** Whether only the admin port serves the path, on a server that has an admin port. */
export function isAdminPath(path: string): boolean {
  return path === "/metrics" || changesServer(path);
}

/** Whether requests to the path change the models of the server. */
export function changesServer(path: string): boolean {
  return path === "/reload" || (path.startsWith("/v2/repository/") && path !== INDEX);
}

/** Result of a reload. */
export const reload = z.union([
  /** References of the builds that answer now instead of earlier ones; empty if no tag has moved. */
  z.object({ switched: z.array(z.string()) }),
  z.object({ refused: z.string() }),
  z.object({ failed: z.string() }),
]);
export type Reload = z.infer<typeof reload>;

export interface ServerControl {
  /** Replaces the builds whose tags have moved, as SIGHUP does. Resolves when the new builds answer. */
  reload(): Promise<Reload>;
}

export interface ControlOptions {
  readonly lifecycle: Lifecycle;
  readonly control: ServerControl;
}

/** POST /reload: new builds of the served names replace the builds that answer. */
export function addReload(app: Pick<Hono, "post">, { lifecycle, control }: ControlOptions): void {
  app.post("/reload", async (c) => {
    if (lifecycle.phase !== "ready")
      throw notReloaded(lifecycle.pending ? "the server is starting" : "the server is stopping");
    const context = contextOf(c);
    context.held(true);
    const answer = await control.reload().finally(() => context.held(false));
    if ("refused" in answer) throw notReloaded(answer.refused);
    if ("failed" in answer) {
      const detail = `the build that answers stays: ${answer.failed}`;
      throw new ProblemError({ code: "reload_failed", detail });
    }
    return c.json({ status: "ready", switched: answer.switched });
  });
}

function notReloaded(detail: string): ProblemError {
  return new ProblemError({ code: "reload_refused", detail });
}
