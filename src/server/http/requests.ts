/** Every request on its way in and out: its answer is named after it, counted, and written down where that is asked for. */

import { routeOf } from "../../base/labels.ts";
import { isLogged, log } from "../../base/log.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { HeadAsGet } from "./head-as-get.ts";
import type { Fetch } from "./listener.ts";
import { RequestContext } from "./request-context.ts";

export interface RequestsOptions {
  /** Undefined where requests are not counted: those of a sibling are counted there. */
  readonly metrics?: Metrics | undefined;
  /** Whether each request leaves a line in the log; at the level `trace` each does. */
  readonly accessLog: boolean;
  /** Whether another front of this server sends the requests. */
  readonly isForwarded?: boolean;
}

export function named(
  answer: (request: Request, context: RequestContext) => Response | Promise<Response>,
  { metrics, accessLog, isForwarded = false }: RequestsOptions,
): Fetch {
  const answered = (request: Request, context: RequestContext, response: Response, beganMs: number) => {
    if (!context.isNamed) response.headers.set("X-Request-Id", context.requestId);
    metrics?.answered(routeOf(context.path), response.status);
    if (beganMs > 0) logAccess(context, { request, response, beganMs, isAsked: accessLog });
    return response;
  };
  return (request) => {
    const context = new RequestContext(request);
    context.isForwarded = isForwarded;
    const beganMs = accessLog || isLogged("trace") ? performance.now() : 0;
    const response = answer(context.isHead ? new HeadAsGet(request) : request, context);
    return response instanceof Promise
      ? response.then((late) => answered(request, context, late, beganMs))
      : answered(request, context, response, beganMs);
  };
}

interface Answered {
  readonly request: Request;
  readonly response: Response;
  readonly beganMs: number;
  /** Else it is written at the level `trace`. */
  readonly isAsked: boolean;
}

function logAccess(context: RequestContext, { request, response, beganMs, isAsked }: Answered): void {
  const path = context.shownPath;
  const { method } = request;
  const { status } = response;
  const durationMs = Math.round(1000 * (performance.now() - beganMs)) / 1000;
  const fields = context.fields({ method, path, status, duration_ms: durationMs });
  const location = response.headers.get("location");
  log[isAsked ? "info" : "trace"](`${method} ${location ?? path} ${status} in ${durationMs} ms`, fields);
}
