/** Writes the access log: one line for each answered request. */
import { isLogged, log } from "../base/log.ts";
import type { RequestContext } from "./request.ts";

/** Paths of health probes, which orchestrators request every few seconds. Such requests get no span, and a log line only at the level `trace`. */
export const probePath = /^\/(?:health\/|v2\/health\/|v2\/models\/.+\/ready$)/;

export interface Access {
  readonly context: RequestContext;
  readonly request: Request;
  /** The path of the request's URL, percent-encoded. The query is left out, since it may have secrets. */
  readonly path: string;
  readonly beganMs: number;
  readonly level: "info" | "trace";
  readonly address: string | undefined;
}

/** Logs a request when its answer is ready. The line of a stream has no `bytes`. */
export function logAccess(response: Response, access: Access): void {
  const { context, level } = access;
  if (!isLogged(level)) return;
  const { headers } = response;
  const length = context.isHead ? 0 : (context.answerBytes ?? lengthIn(headers));
  const isStream = context.isStream || headers.get("content-type")?.startsWith("text/event-stream") === true;
  if (length !== undefined || isStream) writeLine(response, length, access);
  else
    void response
      .clone()
      .blob()
      .then(({ size }) => writeLine(response, size, access));
}

function writeLine(
  response: Response,
  bytes: number | undefined,
  { context, request, path, beganMs, level, address }: Access,
): void {
  const { method, headers } = request;
  const { status } = response;
  const durationMs = Math.round(1000 * (performance.now() - beganMs)) / 1000;
  const fields = {
    method,
    path,
    status,
    duration_ms: durationMs,
    bytes,
    request_bytes: lengthIn(headers),
    client: address,
    forwarded_for: headers.get("x-forwarded-for") ?? undefined,
    key: context.key?.name,
    model: context.model?.name ?? response.headers.get("x-model") ?? undefined,
    prediction_status: context.predictionStatus,
    prediction_id: predictionIn(response.headers.get("location") ?? path),
  };
  log[level](`${method} ${path} ${status} in ${durationMs} ms`, context.fields(fields));
}

function lengthIn(headers: Headers): number | undefined {
  const length = headers.get("content-length");
  return length === null ? undefined : Number(length);
}

/** The id of the prediction or demo prediction that a URL path names; undefined for other paths. */
function predictionIn(path: string): string | undefined {
  return /\/(?:predictions|demo)\/([\w.-]{16,})(?:\/|$)/.exec(path)?.[1];
}
