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

/**
 * Logs a request as soon as the size of its answer is known: for a stream of unknown length, when the stream ends.
 * @returns the response to send: for a stream of unknown length, a copy that counts its bytes
 */
export function logAccess(response: Response, access: Access): Response {
  const { context, request } = access;
  if (!isLogged(access.level)) return response;
  const { headers } = response;
  const write = (bytes: number) => writeLine(response, bytes, access);
  const length = context.answerBytes ?? lengthIn(headers);
  const isStream = context.isStream || headers.get("content-type")?.startsWith("text/event-stream") === true;
  if (context.isHead || request.method === "HEAD") write(0);
  else if (length !== undefined) write(length);
  else if (isStream && response.body !== null) return new Response(counted(response.body, write), response);
  else
    void response
      .clone()
      .blob()
      .then(({ size }) => write(size));
  return response;
}

function writeLine(
  response: Response,
  bytes: number,
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

/** Passes a stream on and counts its bytes. Calls `onEnd` once, when the stream ends, fails or is canceled. */
function counted(stream: ReadableStream<Uint8Array>, onEnd: (bytes: number) => void): ReadableStream<Uint8Array> {
  const reader = stream.getReader();
  let bytes = 0;
  let isOver = false;
  // Canceling the stream also ends a pending read, so `end` may run twice. Only the first call reports the bytes.
  const end = () => {
    if (!isOver) onEnd(bytes);
    isOver = true;
  };
  return new ReadableStream(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (!done) {
            bytes += value.length;
            controller.enqueue(value);
            return;
          }
          if (isOver) return;
          end();
          controller.close();
        } catch (error) {
          end();
          controller.error(error);
        }
      },
      cancel(reason) {
        end();
        return reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}

/** The id of the prediction or demo prediction that a URL path names; undefined for other paths. */
function predictionIn(path: string): string | undefined {
  return /\/(?:predictions|demo)\/([\w.-]{16,})(?:\/|$)/.exec(path)?.[1];
}
