/**
 * Forwards requests between the HTTP processes of a server, each of which listens on a Unix socket. Each prediction belongs to one process, and every
 * process answers requests for it.
 */
import { rmSync } from "node:fs";
import { z } from "zod";
import { codeOf, SconceError } from "../base/errors.ts";
import { frontOf } from "../predictions/ids.ts";
import { predictionStatuses, type Status } from "../predictions/record.ts";
import type { Fetch } from "./listener.ts";
import { type Family, familySchema } from "./metrics.ts";
import { type RequestContext, urlOf } from "./request.ts";

export interface OtherFrontsOptions {
  readonly index: number;
  readonly count: number;
  /** Path of the Unix socket of the HTTP process with this index. */
  socketOf(index: number): string;
}

/** Path that only the Unix socket serves: the metrics of an HTTP process. */
const metricsPath = "/front/metrics";
/** Milliseconds that a request for metrics waits for the other HTTP processes. */
const METRICS_MS = 1000;
/** Header of answers to other HTTP processes: the status of the prediction, for the access log. It is removed before clients get the answer. */
export const STATUS_HEADER = "X-Sconce-Prediction-Status";

export class OtherFronts {
  readonly #options: OtherFrontsOptions;

  constructor(options: OtherFrontsOptions) {
    this.#options = options;
  }

  /**
   * Forwards a request for a prediction to the HTTP process that the prediction belongs to.
   * @returns undefined if this process must answer: the prediction belongs to it, or its process has exited and the request has no body
   * @throws SconceError `not_ready` if the process cannot be reached
   */
  async forward(id: string, request: Request, context: RequestContext): Promise<Response | undefined> {
    const { index, count, socketOf } = this.#options;
    const owner = frontOf(id, count);
    if (owner === undefined) return undefined;
    return owner === index ? undefined : this.#send(socketOf(owner), request, context);
  }

  /**
   * Sends the request to the Unix socket of another HTTP process. @returns undefined if that process has exited and the request has no body @throws
   * SconceError `not_ready`
   */
  async #send(socket: string, request: Request, context: RequestContext): Promise<Response | undefined> {
    const { pathname, search } = new URL(urlOf(request));
    const { method, signal, body } = request;
    const headers = new Headers(request.headers);
    // The forwarded body is a stream, whose length fetch() does not know.
    if (body !== null) headers.delete("Content-Length");
    headers.set("X-Request-Id", context.requestId);
    // Spans of the other HTTP process become children of this request's span.
    if (context.traceparent !== undefined) headers.set("traceparent", context.traceparent);
    const release = () => context.held(false);
    context.held(true);
    try {
      const answer = await fetch(`http://front${pathname}${search}`, {
        unix: socket,
        // Routes see a HEAD request as GET. Nothing would read the body of a GET's answer, which would wait forever.
        method: context.isHead ? "HEAD" : method,
        headers,
        signal,
        body,
      });
      context.hasIdHeader = true;
      context.isStream = true;
      context.predictionStatus = statusIn(answer.headers.get(STATUS_HEADER));
      answer.headers.delete(STATUS_HEADER);
      // The client's connection has no idle timeout until the last event of an event stream.
      const events = answer.headers.get("content-type") === "text/event-stream" ? answer.body : null;
      if (events !== null) return new Response(events.pipeThrough(new TransformStream({ flush: release })), answer);
      release();
      return answer;
    } catch (error) {
      release();
      // The client has disconnected, so only metrics see this status.
      if (signal.aborted) return new Response(null, { status: body === null ? 200 : 400 });
      if (body !== null || !hasEnded(error)) throw unreachable(error);
      return undefined;
    }
  }

  /** Listens on this process's Unix socket for requests that other HTTP processes forward. */
  listen(fetch: Fetch, metrics: { gauges(): readonly Family[] }): AsyncDisposable {
    const { index, socketOf } = this.#options;
    const path = socketOf(index);
    // A process with this index that was killed leaves the file of its socket.
    rmSync(path, { force: true });
    const listener = Bun.serve({
      unix: path,
      maxRequestBodySize: Number.MAX_SAFE_INTEGER,
      development: false,
      fetch: async (request, server) => {
        // Without an idle timeout: the forwarding process waits as long as its client.
        server.timeout(request, 0);
        const { pathname } = new URL(urlOf(request));
        if (pathname === metricsPath) return Response.json(metrics.gauges());
        return fetch(request);
      },
    });
    return { [Symbol.asyncDispose]: () => listener.stop(true) };
  }

  /** The gauges of all other HTTP processes. Leaves out processes that cannot be reached, or do not answer in time, such as a blocked process. */
  async metrics(): Promise<Family[]> {
    const { index, count, socketOf } = this.#options;
    const others = Array.from({ length: count }, (_, i) => i).filter((i) => i !== index);
    const signal = AbortSignal.timeout(METRICS_MS);
    const answers = await Promise.allSettled(
      others.map(async (other) => {
        const answer = await fetch(`http://front${metricsPath}`, { unix: socketOf(other), signal });
        return z.array(familySchema).parse(await answer.json());
      }),
    );
    return answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
  }
}

function statusIn(header: string | null): Status | undefined {
  return predictionStatuses.find((each) => each === header);
}

/** Whether the error shows that the process of the socket has exited. Too many open files, for example, do not show it. */
function hasEnded(error: unknown): boolean {
  return endedCodes.has(codeOf(error));
}

const endedCodes = new Set(["ENOENT", "ECONNREFUSED", "ECONNRESET"]);

function unreachable(cause: unknown): SconceError {
  return new SconceError("not_ready", "the process with this id cannot be reached now; try again later", {
    refusal: "engine",
    cause,
  });
}
