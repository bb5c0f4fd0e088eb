/** The state of the server and of each model, and the routes of health checks and metrics. */
import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { Unready } from "../../base/labels.ts";
import type { MetricsText } from "../metrics.ts";
import { json } from "../openapi/operation.ts";
import type { OtherFronts } from "../other-fronts.ts";
import { type Problem, ProblemError } from "../problem.ts";
import { contextOf, modelOf } from "../request.ts";
import type { Route } from "../route.ts";

const prometheusType = "text/plain; version=0.0.4; charset=utf-8";

/**
 * Phase of the server, for health checks. In `draining`, it only finishes accepted requests.
 */
export type Phase = "starting" | "restarting" | "ready" | "draining";

/** A phase before the server, or a model, is ready for the first time. */
export type Pending = Extract<Phase, "starting" | "restarting">;

/** Why a server in the phase `ready` cannot finish predictions. */
export type Outage = Exclude<Unready, Phase>;

/** The state of the server. */
export class Lifecycle {
  phase: Phase = "starting";
  outage: () => Outage | undefined = () => undefined;

  /** The phase before the server is ready; undefined afterwards. */
  get pending(): Pending | undefined {
    return this.phase === "starting" || this.phase === "restarting" ? this.phase : undefined;
  }

  /** Why the server is not ready; undefined if it is ready. */
  get unready(): Unready | undefined {
    return this.phase === "ready" ? this.outage() : this.phase;
  }
}

/** Why the model in the path is not ready, or the server if the path names no model. Undefined if it is ready. */
export function unreadyOf(c: Context, lifecycle: Lifecycle): Unready | undefined {
  const { modelPath, served } = contextOf(c);
  if (modelPath === "" || served === undefined) return lifecycle.unready;
  // Throws the fault of a broken model.
  if (served.pending === undefined) modelOf(c);
  return served.unready;
}

const healthSchema = z.object({ status: z.enum(["live", "ready"]) }).openapi("Health");

export function healthRoutes(lifecycle: Lifecycle): Route[] {
  return [
    {
      method: "get",
      path: "/health/live",
      answer: (c) => c.json({ status: "live" }),
      describe: () => ({
        id: "getLiveness",
        tag: "Operations",
        summary: "Whether the process runs",
        description: "Live from the start, also while the model is set up.",
        answers: { 200: json(healthSchema, "Live", { example: { status: "live" } }) },
        isOpen: true,
      }),
    },
    {
      method: "get",
      path: "/health/ready",
      answer: (c) => {
        const unready = unreadyOf(c, lifecycle);
        if (unready === undefined) return c.json({ status: "ready" });
        throw notReady(unready);
      },
      describe: () => ({
        id: "getReadiness",
        tag: "Operations",
        summary: "Whether the server accepts predictions",
        description: "Not ready while the model is set up, and while the server stops.",
        answers: { 200: json(healthSchema, "Ready", { example: { status: "ready" } }) },
        fails: [503],
        isOpen: true,
      }),
    },
  ];
}

export function metricsRoute(metrics: MetricsText, otherFronts: OtherFronts | undefined): Route {
  return {
    method: "get",
    path: "/metrics",
    answer: async (c) => {
      const text = metrics.text((await otherFronts?.metrics()) ?? []);
      return c.body(text, 200, { "Content-Type": prometheusType });
    },
  };
}

const reasons: Readonly<Record<Unready, Pick<Problem, "detail" | "refusal">>> = {
  starting: { detail: "the model is being set up", refusal: "drain" },
  restarting: { detail: "the process that answers HTTP requests has ended and is starting again", refusal: "drain" },
  engine: { detail: "the process that runs the model has ended and is starting again", refusal: "engine" },
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
