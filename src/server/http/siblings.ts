/** The other fronts of this server, each on a Unix socket: what one has, all of them answer. */
import { rmSync } from "node:fs";
import { z } from "zod";
import { SconceError } from "../../base/errors.ts";
import { type Family, familySchema } from "../metrics/counts.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { frontOf } from "../predictions/ids.ts";
import type { Fetch } from "./listener.ts";
import { type RequestContext, urlOf } from "./request.ts";

export interface SiblingsOptions {
  /** Of this front. */
  readonly index: number;
  readonly count: number;
  /** The Unix socket of a front. */
  socketOf(index: number): string;
}

/** A front asks another for its metrics at this path, which no client reaches. */
export const metricsPath = "/sibling/metrics";

export class Siblings {
  readonly #options: SiblingsOptions;
  readonly #onHold: (request: Request, isHeld: boolean) => void;

  /** @param onHold told when the connection of a request waits for another front, and when no longer: it is silent, but not idle */
  constructor(options: SiblingsOptions, onHold: (request: Request, isHeld: boolean) => void) {
    this.#options = options;
    this.#onHold = onHold;
  }

  /**
   * Hands a request for a prediction to the front that has it.
   * @returns its answer; undefined where that is this front, or one that is gone: then the store knows what is left
   * @throws SconceError `not_ready` where that is one that is gone, and the request has a body, or one that cannot be asked now
   */
  async forward(id: string, request: Request, context: RequestContext): Promise<Response | undefined> {
    const { index, count, socketOf } = this.#options;
    const owner = frontOf(id, count);
    if (owner === undefined || owner === index) return undefined;
    const { pathname, search } = new URL(urlOf(request));
    const { method, signal, body } = request;
    const headers = new Headers(request.headers);
    // What is sent as it comes has no length.
    if (body !== null) headers.delete("Content-Length");
    const passed = new PassedBody(body);
    headers.set("X-Request-Id", context.requestId);
    const release = () => this.#onHold(request, false);
    this.#onHold(request, true);
    try {
      const answer = await fetch(`http://front${pathname}${search}`, {
        unix: socketOf(owner),
        // The body of an answer to GET would wait for a reader for ever.
        method: context.isHead ? "HEAD" : method,
        headers,
        signal,
        body: passed.stream,
      });
      context.hasIdHeader = true;
      // That front says how long its reader may be silent.
      const events = answer.headers.get("content-type") === "text/event-stream" ? answer.body : null;
      if (events !== null) return new Response(events.pipeThrough(new TransformStream({ flush: release })), answer);
      release();
      return answer;
    } catch (error) {
      release();
      // The client has left, and nobody reads this: it is what the other front answers, and where that is a refusal it is counted there.
      if (signal.aborted) return new Response(null, { status: passed.isWhole ? 200 : 400 });
      if (body !== null || !isGone(error)) throw away(error);
      return undefined;
    }
  }

  /** The gauges of all other fronts that can be reached. */
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

/** The body of a request on its way to another front; its client may leave before all of it has come. */
class PassedBody {
  readonly stream: ReadableStream<Uint8Array> | null;
  isWhole: boolean;

  constructor(body: Request["body"]) {
    this.isWhole = body === null;
    const flush = () => {
      this.isWhole = true;
    };
    this.stream = body?.pipeThrough(new TransformStream({ flush })) ?? null;
  }
}

/** Whether the process that listened on the socket has ended; all else, such as no free descriptor, says nothing of it. */
function isGone(error: unknown): boolean {
  return error instanceof Error && "code" in error && goneCodes.has(error.code);
}

const goneCodes: ReadonlySet<unknown> = new Set(["ENOENT", "ECONNREFUSED", "ECONNRESET"]);

function away(cause: unknown): SconceError {
  return new SconceError("not_ready", "the process that has this id cannot be asked now; try again later", {
    refusal: "engine",
    cause,
  });
}

export function listenForSiblings(
  { index, socketOf }: SiblingsOptions,
  fetch: Fetch,
  metrics: Metrics,
): AsyncDisposable {
  const path = socketOf(index);
  // Left by a process of this index that was killed.
  rmSync(path, { force: true });
  const listener = Bun.serve({
    unix: path,
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    development: false,
    fetch: async (request, server) => {
      // A sibling may wait for as long as its client does.
      server.timeout(request, 0);
      return new URL(urlOf(request)).pathname === metricsPath ? Response.json(metrics.gauges()) : fetch(request);
    },
  });
  return { [Symbol.asyncDispose]: () => listener.stop(true) };
}
