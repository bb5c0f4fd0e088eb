/**
 * Creates OpenTelemetry spans of requests, predictions, inputs and batches. Other folders import only types, so that
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
/** Maximum links of a batch's span: the default limit of OpenTelemetry. */
const MAX_LINKS = 128;

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
  readonly span: Span;
  readonly context: Context;
  readonly #tracer: Tracer;

  constructor(tracer: Tracer, span: Span) {
    this.#tracer = tracer;
    this.span = span;
    this.context = trace.setSpan(ROOT_CONTEXT, span);
  }

  /**
   * Records the span of a stage that ends now.
   * @param beganMs start in `performance.now()` milliseconds
   * @param index index of the input; undefined for the whole prediction
   */
  took(stage: Stage, beganMs: number, index?: number): void {
    if (index !== undefined && index >= MAX_TRACED_INPUTS) return;
    this.stage(stage, beganMs, index).end();
  }

  stage(stage: Stage, startTime: number, index: number | undefined): Span {
    const attributes = index === undefined ? {} : { "sconce.input.index": index };
    return this.#tracer.startSpan(stage, { startTime, attributes }, this.context);
  }

  /** Begins the span of a batch. @param items count of all items of the batch */
  batch(items: number): BatchSpan {
    const attributes = { "sconce.batch.items": items };
    return new BatchSpan(this, this.#tracer.startSpan("batch", { attributes }, this.context));
  }

  /** Ends the span. @param failure reason of a failure; undefined after success */
  ended(failure: string | undefined): void {
    if (failure !== undefined) {
      this.span.setAttribute("error.type", failure);
      this.span.setStatus({ code: SpanStatusCode.ERROR });
    }
    this.span.end();
  }
}

/** The span of a batch is a child of its first item's prediction, and has links to the other predictions. */
export class BatchSpan {
  readonly #span: Span;
  readonly #linked: Set<PredictionSpan>;

  constructor(first: PredictionSpan, span: Span) {
    this.#span = span;
    this.#linked = new Set([first]);
  }

  /** Links the span to a prediction with an item in the batch. */
  link(prediction: PredictionSpan): void {
    if (this.#linked.has(prediction) || this.#linked.size > MAX_LINKS) return;
    this.#linked.add(prediction);
    this.#span.addLink({ context: prediction.span.spanContext() });
  }

  /** Records an item's forward pass, which ends now. @param beganMs start in `performance.now()` milliseconds */
  took(prediction: PredictionSpan, beganMs: number, index: number): void {
    if (index >= MAX_TRACED_INPUTS) return;
    const span = prediction.stage("forward", beganMs, index);
    span.addLink({ context: this.#span.spanContext() });
    span.end();
  }

  /** Ends the span of the batch. Only the first call counts, so it may be called for each item. */
  ended(): void {
    if (this.#span.isRecording()) this.#span.end();
  }
}
