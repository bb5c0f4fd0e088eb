/** Gives each request a context, and counts and logs each answer. */
import { routeOf } from "../base/labels.ts";
import { isLogged, log } from "../base/log.ts";
import type { Fetch } from "../machine/network/listener.ts";
import type { RequestSpan, Spans } from "../pipeline/spans.ts";
import type { App } from "./app.ts";
import { announcedBytes } from "./body-reader.ts";
import type { RequestMetrics } from "./metrics.ts";
import { type Connections, RequestContext, urlOf } from "./request.ts";

/** Paths of health probes, which orchestrators request every few seconds. Probes get no span, and a log line only at the level `trace`. */
const probePath = /^\/(?:health\/|v2\/health\/|v2\/models\/.+\/ready$)/;

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
  app: App,
  { metrics, tracing, accessLog, isForwarded = false, isAdmin = false, connections }: ContextOptions,
): Fetch {
  const finish = (context: RequestContext, response: Response, span: RequestSpan | undefined) => {
    if (context.isStream) connections?.sending(context.request);
    if (!context.hasIdHeader) {
      response.headers.set("X-Request-Id", context.requestId);
      if (context.model !== undefined) response.headers.set("X-Model", context.model.name);
    }
    const route = routeOf(context.path);
    if (metrics !== undefined)
      (context.metrics ?? metrics).answered(route, response.status, performance.now() - context.beganMs);
    span?.ended(route, response.status);
    const level = accessLog && !probePath.test(context.path) ? "info" : "trace";
    if (isLogged(level)) logAnswer(response, context, level);
    return response;
  };
  return (request) => {
    const context = new RequestContext(request);
    context.isForwarded = isForwarded;
    context.isAdmin = isAdmin;
    context.connections = connections;
    const span = tracing && startSpan(tracing, context);
    const asked = request.method === "HEAD" ? asGet(request) : request;
    const response = app.answer(asked, context);
    if (!(response instanceof Promise)) return finish(context, response, span);
    return response.then(
      (resolved) => finish(context, resolved, span),
      async (error) => finish(context, await app.refused(error, asked, context), span),
    );
  };
}

/**
 * A HEAD request as the GET request that routes see. For HEAD, Hono removes the body of an answer and thus its length, while Bun sends the length and
 * cancels the body.
 */
function asGet(head: Request): Request {
  return new Request(urlOf(head), { method: "GET", headers: head.headers, signal: head.signal });
}

function startSpan(tracing: Spans, context: RequestContext): RequestSpan | undefined {
  const { request, encodedPath } = context;
  if (probePath.test(encodedPath) || encodedPath.endsWith("/metrics")) return undefined;
  const span = tracing.request(request, encodedPath, context);
  Object.assign(context, span.ids);
  return span;
}

/** Logs a request when its answer is ready. The line of a stream comes at its start. */
function logAnswer(response: Response, context: RequestContext, level: "info" | "trace"): void {
  const { request, beganMs, encodedPath: path } = context;
  const { method, headers } = request;
  const { status } = response;
  const durationMs = Math.round(1000 * (performance.now() - beganMs)) / 1000;
  const fields = {
    method,
    path,
    status,
    duration_ms: durationMs,
    request_bytes: announcedBytes(headers),
    client: context.connections?.peerOf(request)?.address,
    forwarded_for: headers.get("x-forwarded-for") ?? undefined,
    key: context.key?.name,
    model: context.model?.name ?? response.headers.get("x-model") ?? undefined,
    prediction_status: context.predictionStatus,
    prediction_id: predictionIn(response.headers.get("location") ?? path),
  };
  log[level](`${method} ${path} ${status} in ${durationMs} ms`, context.fields(fields));
}

/** The id of the prediction or demo prediction that a URL path names; undefined for other paths. */
function predictionIn(path: string): string | undefined {
  return /\/(?:predictions|demo)\/([\w.-]{16,})(?:\/|$)/.exec(path)?.[1];
}
