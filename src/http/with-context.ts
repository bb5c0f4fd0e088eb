/** Gives each request a context, and counts and logs each answer. */
import { routeOf } from "../base/labels.ts";
import { isLogged } from "../base/log.ts";
import type { RequestSpan, Spans } from "../pipeline/spans.ts";
import { logAccess, probePath } from "./access-log.ts";
import type { Fetch } from "./listener.ts";
import type { RequestMetrics } from "./metrics.ts";
import { type Connections, HeadAsGet, RequestContext, urlOf } from "./request.ts";

export interface ContextOptions {
  /** Starts a span for each request except health probes and scrapes of metrics; undefined for forwarded requests. */
  readonly tracing?: Spans | undefined;
  /** Counts each request; undefined for forwarded requests, because the forwarding process counts them. */
  readonly metrics?: Pick<RequestMetrics, "answered"> | undefined;
  /** Logs each request except health probes at the level `info`. If false, and for probes, the level is `trace`. */
  readonly accessLog: boolean;
  readonly isForwarded?: boolean;
  readonly isAdmin?: boolean;
  /** Undefined for forwarded requests. */
  readonly connections?: Connections;
}

/** Wraps the app: gives each request a context, sets `X-Request-Id`, and counts and logs each answer. */
export function withContext(
  answer: (request: Request, context: RequestContext) => Response | Promise<Response>,
  { metrics, tracing, accessLog, isForwarded = false, isAdmin = false, connections }: ContextOptions,
): Fetch {
  const finish = (request: Request, context: RequestContext, response: Response, { beganMs, span }: Begun) => {
    context.release();
    if (context.isStream || context.answerBytes !== undefined) connections?.sending(request);
    if (!context.hasIdHeader) {
      response.headers.set("X-Request-Id", context.requestId);
      if (context.model !== undefined) response.headers.set("X-Model", context.model.name);
    }
    const route = routeOf(context.path);
    if (metrics !== undefined)
      (context.metrics ?? metrics).answered(route, response.status, performance.now() - beganMs);
    span?.ended(route, response.status);
    if (accessLog || isLogged("trace")) {
      const level = accessLog && !probePath.test(context.path) ? "info" : "trace";
      const address = connections?.peerOf(request)?.address;
      logAccess(response, { context, request, path: new URL(urlOf(request)).pathname, beganMs, level, address });
    }
    return response;
  };
  return (request) => {
    const context = new RequestContext(request);
    context.isForwarded = isForwarded;
    context.isAdmin = isAdmin;
    context.connections = connections;
    const begun = { beganMs: performance.now(), span: tracing && traced(tracing, request, context) };
    const response = answer(context.isHead ? new HeadAsGet(request) : request, context);
    return response instanceof Promise
      ? response.then((resolved) => finish(request, context, resolved, begun))
      : finish(request, context, response, begun);
  };
}

interface Begun {
  readonly beganMs: number;
  readonly span: RequestSpan | undefined;
}

function traced(tracing: Spans, request: Request, context: RequestContext): RequestSpan | undefined {
  const { pathname } = new URL(urlOf(request));
  if (probePath.test(pathname) || pathname.endsWith("/metrics")) return undefined;
  const span = tracing.request(request, pathname, context);
  Object.assign(context, span.ids);
  return span;
}
