/** What a request is called: in its answer, and in every line of the log that it leads to. */
import type { Context } from "hono";
import { LogFields } from "../../base/log.ts";
import { newId } from "../predictions/ids.ts";
import type { Origin } from "../predictions/predictions.ts";

/** Printable ASCII. */
const requestIdPattern = /^[\x20-\x7e]{1,128}$/;
/** W3C Trace Context, level 1; a version above 00 may have more behind. */
const traceparentPattern = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/;

export class RequestContext implements Origin {
  /** That of `X-Request-Id` where it is sane. */
  readonly requestId: string;
  readonly traceId: string | undefined;
  /** Of the client's span. */
  readonly spanId: string | undefined;
  /** Routes are asked for what GET is answered. */
  readonly isHead: boolean;
  /** As routes know it. */
  path = "/";
  /** Whether another front of this server sent the request. */
  isForwarded = false;
  /** Whether the answer has the request's id already. */
  isNamed = false;

  constructor({ headers, method }: Request) {
    this.isHead = method === "HEAD";
    const given = headers.get("x-request-id");
    this.requestId = given !== null && requestIdPattern.test(given) ? given : newId("");
    const traceparent = headers.get("traceparent");
    if (traceparent === null) return;
    const [, version, traceId, spanId, more] = traceparentPattern.exec(traceparent) ?? [];
    if (version === "00" && more !== undefined) return;
    this.traceId = traceId;
    this.spanId = spanId;
  }

  /** For lines of text, which it must not break: routing has decoded it. */
  get shownPath(): string {
    return encodeURI(this.path);
  }

  fields(more: Readonly<Record<string, string | number>> = {}): LogFields {
    return fieldsOf(this, more);
  }
}

/** The context of a request that came by `named`. */
export function contextOf({ env }: Context): RequestContext {
  if (env instanceof RequestContext) return env;
  throw new RangeError("a request came without its context");
}

export function fieldsOf(origin: Origin | undefined, more: Readonly<Record<string, string | number>> = {}): LogFields {
  return new LogFields({ ...more, request_id: origin?.requestId, trace_id: origin?.traceId, span_id: origin?.spanId });
}
