/**
 * Creates OpenTelemetry spans of requests, predictions and inputs. Other folders import only types, so that
 * servers without telemetry do not load OpenTelemetry.
 */
import {
  type Attributes,
  type Context,
  createTraceState,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import type { Stage } from "../base/labels.ts";

/** Only this many inputs of a prediction get spans for their stages: a prediction may have thousands of inputs. */
const MAX_TRACED_INPUTS = 16;

/** Identifies a span of any process by the fields of W3C Trace Context. */
export interface SpanIds {
  /** Undefined without a span: the server makes no spans, and the client sent no `traceparent` header. */
  readonly traceId: string | undefined;
  readonly spanId: string | undefined;
  readonly isSampled?: boolean | undefined;
  readonly tracestate?: string | undefined;
}

interface TracedPrediction {
  readonly id: string;
  readonly kind: string;
  readonly count: number;
  /** The model as `repository:tag`. */
  readonly model: string | undefined;
  /** Span of the request that created the prediction, perhaps in another process. */
  readonly origin: SpanIds | undefined;
}

export class Spans {
  readonly #tracer: Tracer;

  constructor(tracer: Tracer) {
    this.#tracer = tracer;
  }

  /** Begins the span of a request, as a child of the client's span. */
  request(request: Request, path: string, client: SpanIds): RequestSpan {
    const { method, headers } = request;
    const attributes: Attributes = { "http.request.method": method, "url.path": path };
    const agent = headers.get("user-agent");
    if (agent !== null) attributes["user_agent.original"] = agent;
    const span = this.#tracer.startSpan(method, { kind: SpanKind.SERVER, attributes }, contextOf(client));
    return new RequestSpan(span, method);
  }

  /** Begins the span of a prediction. @returns undefined if the trace is not sampled */
  prediction({ id, kind, count, model, origin }: TracedPrediction): PredictionSpan | undefined {
    const attributes = { "sconce.prediction.id": id, "sconce.inputs": count, "sconce.model": model };
    const span = this.#tracer.startSpan(kind, { attributes }, contextOf(origin));
    return span.isRecording() ? new PredictionSpan(this.#tracer, span) : undefined;
  }
}

/** A context in which new spans become children of another process's span. */
function contextOf(ids: SpanIds | undefined): Context {
  const { traceId, spanId, isSampled = false, tracestate } = ids ?? {};
  if (traceId === undefined || spanId === undefined) return ROOT_CONTEXT;
  return trace.setSpanContext(ROOT_CONTEXT, {
    traceId,
    spanId,
    isRemote: true,
    traceFlags: isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
    ...(tracestate === undefined ? {} : { traceState: createTraceState(tracestate) }),
  });
}

export class RequestSpan {
  readonly ids: SpanIds;
  readonly #span: Span;
  readonly #method: string;

  constructor(span: Span, method: string) {
    const { traceId, spanId, traceFlags, traceState } = span.spanContext();
    const isSampled = (traceFlags & TraceFlags.SAMPLED) !== 0;
    this.ids = { traceId, spanId, isSampled, tracestate: traceState?.serialize() || undefined };
    this.#span = span;
    this.#method = method;
  }

  ended(route: string, status: number): void {
    const span = this.#span;
    span.updateName(`${this.#method} ${route}`);
    span.setAttributes({ "http.route": route, "http.response.status_code": status });
    if (status >= 500) {
      span.setAttribute("error.type", String(status));
      span.setStatus({ code: SpanStatusCode.ERROR });
    }
    span.end();
  }
}

export class PredictionSpan {
  readonly #span: Span;
  readonly #context: Context;
  readonly #tracer: Tracer;

  constructor(tracer: Tracer, span: Span) {
    this.#tracer = tracer;
    this.#span = span;
    this.#context = trace.setSpan(ROOT_CONTEXT, span);
  }

  /**
   * Records the span of a stage that ends now.
   * @param startTime in `performance.now()` milliseconds
   * @param index index of the input; undefined for the whole prediction
   * @param batchSize count of items in the input's batch, for its forward pass
   */
  took(stage: Stage, startTime: number, index?: number, batchSize?: number): void {
    if (index !== undefined && index >= MAX_TRACED_INPUTS) return;
    const attributes = { "sconce.input.index": index, "sconce.batch.items": batchSize };
    this.#tracer.startSpan(stage, { startTime, attributes }, this.#context).end();
  }

  /** Ends the span. @param failure reason of a failure; undefined after success */
  ended(failure: string | undefined): void {
    if (failure !== undefined) {
      this.#span.setAttribute("error.type", failure);
      this.#span.setStatus({ code: SpanStatusCode.ERROR });
    }
    this.#span.end();
  }
}
