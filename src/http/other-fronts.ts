/** Forwards HTTP requests between the fronts of a server, each of which listens on a Unix socket: a prediction belongs to one front, and each front answers requests for every prediction. */
import { rmSync } from "node:fs";
import { z } from "zod";
import { codeOf, SconceError } from "../base/errors.ts";
import { type Family, familySchema } from "../base/metric-family.ts";
import type { Fetch } from "../machine/network/listener.ts";
import { frontOf } from "../predictions/ids.ts";
import { predictionStatuses } from "../predictions/record.ts";
import { type RequestContext, urlOf } from "./request.ts";

export interface OtherFrontsOptions {
  readonly index: number;
  readonly count: number;
  /** Path of the Unix socket of the front with this index. */
  socketOf(index: number): string;
}

/** Path that only the Unix socket serves: the metrics of a front. */
const metricsPath = "/front/metrics";
/** Milliseconds that a request for metrics waits for the other fronts. */
const METRICS_MS = 1000;
/** Header with the prediction's status, for the access log of the front that forwarded the request. Clients do not get this header. */
export const STATUS_HEADER = "X-Sconce-Prediction-Status";

/** Errors which show that the front of a socket has exited. Too many open files, for example, do not show it. */
const exitCodes = new Set(["ENOENT", "ECONNREFUSED", "ECONNRESET"]);

export class OtherFronts {
  readonly #options: OtherFrontsOptions;

  constructor(options: OtherFrontsOptions) {
    this.#options = options;
  }

  /**
   * Forwards a request for a prediction to the front that has the prediction.
   * @returns undefined if this front has the prediction, or if the other front has exited and the request has no body: this front must then answer
   * @throws SconceError `not_ready` if the other front cannot be reached
   */
  async forward(id: string, context: RequestContext): Promise<Response | undefined> {
    const { index, count, socketOf } = this.#options;
    const owner = frontOf(id, count);
    if (owner === undefined || owner === index) return undefined;
    const { request } = context;
    const { pathname, search } = new URL(urlOf(request));
    // For HEAD, this is not the method that routes see. Nothing would read the body of a GET's answer, which would wait forever.
    const { method, signal, body } = request;
    const headers = new Headers(request.headers);
    // The forwarded body is a stream, whose length fetch() does not know.
    if (body !== null) headers.delete("Content-Length");
    headers.set("X-Request-Id", context.requestId);
    // Spans of the other front become children of this request's span.
    if (context.traceparent !== undefined) headers.set("traceparent", context.traceparent);
    const release = () => context.held(false);
    context.held(true);
    try {
      const url = `http://front${pathname}${search}`;
      const answer = await fetch(url, { unix: socketOf(owner), method, headers, signal, body });
      context.hasIdHeader = true;
      context.isStream = true;
      const status = answer.headers.get(STATUS_HEADER);
      context.predictionStatus = predictionStatuses.find((each) => each === status);
      answer.headers.delete(STATUS_HEADER);
      // The client's connection has no idle timeout until the last event of an event stream.
      const events = answer.headers.get("content-type") === "text/event-stream" ? answer.body : null;
      if (events !== null) return new Response(events.pipeThrough(new TransformStream({ flush: release })), answer);
      release();
      return answer;
    } catch (cause) {
      release();
      // The client has disconnected, so only metrics see this status.
      if (signal.aborted) return new Response(null, { status: body === null ? 200 : 400 });
      if (body === null && exitCodes.has(codeOf(cause))) return undefined;
      const message = "the process with this id cannot be reached now; try again later";
      throw new SconceError("not_ready", message, { refusal: "engine", cause });
    }
  }

  /** Listens on the socket of this front for requests that other fronts forward. */
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

  /** The gauges of all other fronts. Leaves out fronts that cannot be reached, or do not answer in time, such as a blocked front. */
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
