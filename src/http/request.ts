/** A request: its context, its model and its URL. */
import type { Context } from "hono";
import { LogFields } from "../base/log.ts";
import { randomId } from "../base/random-id.ts";
import type { Peer } from "../machine/network/listener.ts";
import type { Sender } from "../pipeline/client.ts";
import type { PredictionRecord, Status } from "../predictions/record.ts";
import type { Client, Origin } from "../predictions/request.ts";
import type { ApiKey } from "./access/api-key.ts";
import type { RequestMetrics } from "./metrics.ts";
import { ProblemError } from "./problem.ts";
import type { ServedModel, ServedName } from "./served-model.ts";

/** Valid `X-Request-Id`: 1 to 128 printable ASCII characters. */
const requestIdPattern = /^[\x20-\x7e]{1,128}$/;
/** Valid `traceparent` (W3C Trace Context, level 1). Later versions of the header may append fields. */
const traceparentPattern = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** Number of characters at the end of `X-Forwarded-For` that identify a client. */
const MAX_FORWARDED = 200;

/** The data of one request that its answer, log lines, metrics and spans need. */
export class RequestContext implements Origin, Client {
  /** The request as Bun created it. */
  readonly request: Request;
  /** When the request arrived, in milliseconds of `performance.now()`. */
  readonly beganMs = performance.now();
  /** The request's `X-Request-Id` if it is valid, else a new id. */
  readonly requestId: string;
  /** Ids of the span that log lines name: the server's span of this request, or without tracing the client's span. */
  traceId: string | undefined;
  spanId: string | undefined;
  isSampled: boolean | undefined;
  tracestate: string | undefined;
  /** Output fields whose arrays the prediction has as bytes. */
  byteFields: readonly string[] | undefined = undefined;
  /** The path that the router matches: without --base-path, without the name of a model, and with `{model}` in place of the name in /v2/models. */
  path = "/";
  /** Why a guard refuses the request; undefined if none does. */
  refusal: unknown = undefined;
  /** The name in the path, or the first name of the server. Undefined if the server does not have the name in the path. */
  served: ServedName | undefined = undefined;
  /** `/models/NAME` if the path names a model, else empty. */
  modelPath = "";
  /** Counts the answer in the metrics of the request's model. If undefined, the server's metrics count it. */
  metrics: Pick<RequestMetrics, "answered"> | undefined = undefined;
  /** The connections of the port; undefined for a forwarded request. */
  connections: Connections | undefined = undefined;
  /** Whether another front of this server forwarded the request. */
  isForwarded = false;
  /** Whether the request came through --admin-port. */
  isAdmin = false;
  /** The API key of the request; undefined without a valid key. */
  key: ApiKey | undefined = undefined;
  /** The version of the model that runs or ran the prediction. */
  model: PredictionRecord["model"] = undefined;
  /** The status of the prediction in the answer; undefined for an answer without a prediction. */
  predictionStatus: Status | undefined = undefined;
  /** Whether the answer's body is a stream, which a slow client needs time to read. */
  isStream = false;
  /** Whether the answer has `X-Request-Id` and `X-Model` already. */
  hasIdHeader = false;

  constructor(request: Request) {
    const { headers } = request;
    this.request = request;
    const given = headers.get("x-request-id");
    this.requestId = given !== null && requestIdPattern.test(given) ? given : randomId();
    const traceparent = headers.get("traceparent");
    if (traceparent === null) return;
    const [, version, traceId, spanId, flags = "", more] = traceparentPattern.exec(traceparent) ?? [];
    if (version === "00" && more !== undefined) return;
    this.traceId = traceId;
    this.spanId = spanId;
    if (traceId === undefined) return;
    this.isSampled = (Number.parseInt(flags, 16) & 1) === 1;
    this.tracestate = headers.get("tracestate") ?? undefined;
  }

  /** Adds the suffix of the API key to an id that the client chose, so that clients cannot read predictions of other keys. */
  ownId(id: string): string {
    return this.key?.ownId(id) ?? id;
  }

  get idSuffix(): string {
    return this.key?.idSuffix ?? "";
  }

  // A getter: Bun creates the signal of a request on its first use, and most requests never need it.
  get signal(): AbortSignal {
    return this.request.signal;
  }

  get share(): number {
    return this.key?.share ?? 1;
  }

  get sender(): Sender | undefined {
    const { key } = this;
    const peer = this.connections?.peerOf(this.request);
    // Proxies append to the header, so its end is trustworthy. A client can choose only the beginning.
    const forwarded = this.request.headers.get("x-forwarded-for")?.slice(-MAX_FORWARDED);
    const name = forwarded ?? String(peer?.port);
    if (key !== undefined) return { address: `key ${key.name}`, name, share: key.share };
    return peer && { address: peer.address, name };
  }

  held(isHeld: boolean): void {
    this.connections?.hold(this.request, isHeld);
  }

  /** The ids of the span as a `traceparent` header, for requests to other processes. */
  get traceparent(): string | undefined {
    const { traceId, spanId, isSampled } = this;
    return traceId && spanId ? `00-${traceId}-${spanId}-${isSampled ? "01" : "00"}` : undefined;
  }

  /** The path for log lines: percent-encoded, and without the query, which may have secrets. */
  get encodedPath(): string {
    return new URL(urlOf(this.request)).pathname;
  }

  fields(more: Readonly<Record<string, string | number | undefined>> = {}): LogFields {
    return fieldsOf(this, more);
  }
}

/** The connections of a port. */
export interface Connections {
  /** Turns off the idle timeout of a request while its answer waits (`isHeld`), and then on again. */
  hold(request: Request, isHeld: boolean): void;
  /** Gives a client time to read a large answer. */
  sending(request: Request): void;
  peerOf(request: Request): Peer | undefined;
}

export function contextOf({ env }: Context): RequestContext {
  if (env instanceof RequestContext) return env;
  throw new RangeError("the request has no context: the app was called without withContext()");
}

export function fieldsOf(
  origin: Origin | undefined,
  more: Readonly<Record<string, string | number | undefined>> = {},
): LogFields {
  return new LogFields({ ...more, request_id: origin?.requestId, trace_id: origin?.traceId, span_id: origin?.spanId });
}

/** The model of the request. @throws ProblemError why the model cannot answer */
export function modelOf(c: Context): ServedModel {
  return modelIn(contextOf(c));
}

/** Like `modelOf`, for a request that the router does not see. */
export function modelIn(context: RequestContext): ServedModel {
  context.metrics ??= context.served?.metrics;
  const model = context.served?.model;
  if (model === undefined) throw new ProblemError({ code: "not_found", detail: "there is no model of this name" });
  if (model instanceof ProblemError) throw model;
  return model;
}

/** Makes a value for each model, at the first request for the model. */
export function perModel<T>(make: (model: ServedModel) => T): (c: Context) => T {
  const made = new WeakMap<ServedModel, { readonly value: T }>();
  return (c) => {
    const model = modelOf(c);
    let known = made.get(model);
    if (known === undefined) {
      known = { value: make(model) };
      made.set(model, known);
    }
    return known.value;
  };
}

/** The last valid URL. The next request often has the same URL, which then needs no parsing. */
let parsedUrl: string | undefined;

/** The absolute URL of a request. Bun's `request.url` is only a path for HTTP/1.0 without a Host header, and is invalid for an invalid Host. */
export function urlOf({ url }: Pick<Request, "url">): string {
  if (url === parsedUrl) return url;
  if (URL.canParse(url)) {
    parsedUrl = url;
    return url;
  }
  const path = url.replace(/^https?:\/\/[^/]*/, "");
  return `http://localhost${path.startsWith("/") ? "" : "/"}${path}`;
}
