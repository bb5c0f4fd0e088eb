/** Spans of requests, predictions, inputs and batches. The variables of OpenTelemetry switch them on: open-telemetry.ts. */
import type { Stage } from "../../base/labels.ts";

/** A span of another process, or of an earlier process, from W3C Trace Context. */
export interface SpanIds {
  /** Undefined without a `traceparent`. */
  readonly traceId: string | undefined;
  readonly spanId: string | undefined;
  readonly isSampled?: boolean | undefined;
  readonly tracestate?: string | undefined;
}

export interface TracedPrediction {
  readonly id: string;
  readonly kind: string;
  /** Number of inputs. */
  readonly count: number;
  /** `repository:tag` */
  readonly model: string | undefined;
  /** The request that created it, maybe in another process. */
  readonly origin: SpanIds | undefined;
}

export interface Tracing {
  /** Begins the span of a request, below the span of the client. */
  request(request: Request, path: string, client: SpanIds): RequestSpan;
  /** Begins the span of a prediction. @returns undefined if the trace is not sampled */
  prediction(prediction: TracedPrediction): PredictionSpan | undefined;
}

export interface RequestSpan {
  readonly ids: SpanIds;
  ended(route: string, status: number): void;
}

export interface PredictionSpan {
  /** A stage ends now. @param beganMs in `performance.now()` milliseconds @param index index of the input; undefined for the whole prediction */
  took(stage: Stage, beganMs: number, index?: number): void;
  /** Begins the span of a batch. @param items number of all items of the batch */
  batch(items: number): BatchSpan;
  /** @param failure reason of a failure */
  ended(failure: string | undefined): void;
}

export interface BatchSpan {
  /** Links a prediction with an item in the batch. */
  link(prediction: PredictionSpan): void;
  /** The time in the batch of an item, which ends now. */
  took(prediction: PredictionSpan, beganMs: number, index: number): void;
  /** May be called for each item: the first call counts. */
  ended(): void;
}
