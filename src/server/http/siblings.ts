/**
 * The other fronts of this server, each on a Unix socket. Every front answers for the predictions of all. Relatives are fronts of another server with
 * predictions of the same clients: of an earlier build that finishes its work, or of the two servers of an upgrade.
 */
import { rmSync } from "node:fs";
import { z } from "zod";
import { SconceError } from "../../base/errors.ts";
import { type Family, familySchema } from "../metrics/counts.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { frontOf } from "../predictions/ids.ts";
import { CLIENT_ID } from "../predictions/split.ts";
import type { Fetch } from "./listener.ts";
import { type RequestContext, urlOf } from "./request.ts";

export interface SiblingsOptions {
  /** Index of this front. */
  readonly index: number;
  readonly count: number;
  /** The Unix socket of a front. */
  socketOf(index: number): string;
}

/** Paths on the Unix socket only: a front's metrics, and whether a front has a prediction. */
export const metricsPath = "/sibling/metrics";
const hasPath = "/sibling/has/";

export class Siblings {
  readonly #options: SiblingsOptions;
  readonly #onHold: (request: Request, isHeld: boolean) => void;
  /** The sockets of the fronts of each relative, by index. */
  relatives: readonly (readonly string[])[] = [];
  /** Whether the relatives create the predictions whose ids clients choose: two servers must not create one twice. */
  isRetiring = false;
  /** Whether this front runs a prediction, or its store has the outcome. */
  has: (id: string) => Promise<boolean> = () => Promise.resolve(true);

  /** @param onHold called when a request begins to wait for another front, and when the wait ends */
  constructor(options: SiblingsOptions, onHold: (request: Request, isHeld: boolean) => void) {
    this.#options = options;
    this.#onHold = onHold;
  }

  /**
   * Forwards a request for a prediction to the front that owns it, or to a relative that has it.
   * @returns undefined if this front answers: it is the owner, or the owner has ended, and the store has the prediction
   * @throws SconceError `not_ready` if the owner cannot be reached, or has ended after the request's body was sent
   */
  async forward(id: string, request: Request, context: RequestContext): Promise<Response | undefined> {
    const { index, count, socketOf } = this.#options;
    const owner = frontOf(id, count);
    if (owner === undefined) return undefined;
    const answer = owner === index ? undefined : await this.#send(socketOf(owner), request, context);
    if (answer !== undefined || this.relatives.length === 0 || (await this.has(id))) return answer;
    for (const sockets of this.relatives) {
      const socket = sockets[frontOf(id, sockets.length) ?? 0] ?? "";
      const isCreation = this.isRetiring && request.body !== null;
      if (isCreation || (await hasAt(socket, id))) return this.#send(socket, request, context);
    }
    return undefined;
  }

  /** @returns undefined if the process of the socket has ended */
  async #send(socket: string, request: Request, context: RequestContext): Promise<Response | undefined> {
    const { pathname, search } = new URL(urlOf(request));
    const { method, signal, body } = request;
    const headers = new Headers(request.headers);
    // The forwarded body is a stream, so it has no length.
    if (body !== null) headers.delete("Content-Length");
    const forwarded = new ForwardedBody(body);
    headers.set("X-Request-Id", context.requestId);
    // The other front does not see the address of the client.
    if (context.clientId !== undefined) headers.set(CLIENT_ID, context.clientId);
    // The other front's spans lie below the span of this request.
    if (context.traceparent !== undefined) headers.set("traceparent", context.traceparent);
    const release = () => this.#onHold(request, false);
    this.#onHold(request, true);
    try {
      const answer = await fetch(`http://front${pathname}${search}`, {
        unix: socket,
        // HEAD arrives here as GET, but the body of a GET would wait for a reader for ever.
        method: context.isHead ? "HEAD" : method,
        headers,
        signal,
        body: forwarded.stream,
      });
      context.hasIdHeader = true;
      context.isStream = true;
      // The connection stays on hold until the other front ends its events.
      const events = answer.headers.get("content-type") === "text/event-stream" ? answer.body : null;
      if (events !== null) return new Response(events.pipeThrough(new TransformStream({ flush: release })), answer);
      release();
      return answer;
    } catch (error) {
      release();
      // The client has left, so only metrics see this status. The other front answers the same, and counts refusals.
      if (signal.aborted) return new Response(null, { status: forwarded.isComplete ? 200 : 400 });
      if (body !== null || !hasEnded(error)) throw unreachable(error);
      return undefined;
    }
  }

  /** Answers the requests that other fronts forward to this front. */
  listen(fetch: Fetch, metrics: Pick<Metrics, "gauges">): AsyncDisposable {
    const { index, socketOf } = this.#options;
    const path = socketOf(index);
    // A killed process of this index leaves its socket.
    rmSync(path, { force: true });
    const listener = Bun.serve({
      unix: path,
      maxRequestBodySize: Number.MAX_SAFE_INTEGER,
      development: false,
      fetch: async (request, server) => {
        // A sibling may wait as long as the sibling's client.
        server.timeout(request, 0);
        const { pathname } = new URL(urlOf(request));
        if (pathname === metricsPath) return Response.json(metrics.gauges());
        if (!pathname.startsWith(hasPath)) return fetch(request);
        return new Response(null, { status: (await this.has(pathname.slice(hasPath.length))) ? 200 : 404 });
      },
    });
    return { [Symbol.asyncDispose]: () => listener.stop(true) };
  }

  /** The gauges of all other reachable fronts. */
  async metrics(): Promise<Family[]> {
    const { index, count, socketOf } = this.#options;
    const others = Array.from({ length: count }, (_, i) => i).filter((i) => i !== index);
    const answers = await Promise.allSettled(
      others.map(async (other) => {
        const answer = await fetch(`http://front${metricsPath}`, { unix: socketOf(other) });
        return z.array(familySchema).parse(await answer.json());
      }),
    );
    return answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
  }
}

/** Whether the front of a socket has a prediction. A front that has ended has none. */
async function hasAt(socket: string, id: string): Promise<boolean> {
  try {
    return (await fetch(`http://front${hasPath}${id}`, { unix: socket })).ok;
  } catch (error) {
    if (hasEnded(error)) return false;
    throw unreachable(error);
  }
}

/** The body of a forwarded request. The client may leave before the body is complete. */
class ForwardedBody {
  readonly stream: ReadableStream<Uint8Array> | null;
  isComplete: boolean;

  constructor(body: Request["body"]) {
    this.isComplete = body === null;
    const flush = () => {
      this.isComplete = true;
    };
    this.stream = body?.pipeThrough(new TransformStream({ flush })) ?? null;
  }
}

/** Whether the process of the socket has ended. Other errors, such as no free descriptor, do not show that. */
function hasEnded(error: unknown): boolean {
  return error instanceof Error && "code" in error && endedCodes.has(error.code);
}

const endedCodes: ReadonlySet<unknown> = new Set(["ENOENT", "ECONNREFUSED", "ECONNRESET"]);

function unreachable(cause: unknown): SconceError {
  return new SconceError("not_ready", "the process with this id cannot be reached now; try again later", {
    refusal: "engine",
    cause,
  });
}
