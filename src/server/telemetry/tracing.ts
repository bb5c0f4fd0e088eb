/**
 * Interface for spans of requests, predictions, inputs and batches. Variables of OpenTelemetry switch spans on:
 * open-telemetry.ts.
 */
import type { Stage } from "../../base/labels.ts";

/** Identifies a span of another or an earlier process, in the terms of W3C Trace Context. */
export interface SpanIds {
  /** Undefined without a `traceparent` header. */
  readonly traceId: string | undefined;
  readonly spanId: string | undefined;
  readonly isSampled?: boolean | undefined;
  readonly tracestate?: string | undefined;
}

export interface TracedPrediction {
  readonly id: string;
  readonly kind: string;
  /** Count of inputs. */
  readonly count: number;
  /** The model as `repository:tag`. */
  readonly model: string | undefined;
  /** Span of the request that created the prediction, perhaps in another process. */
  readonly origin: SpanIds | undefined;
}

export interface Tracing {
  /** Begins the span of a request, as a child of the client's span. */
  request(request: Request, path: string, client: SpanIds): RequestSpan;
  /** Begins the span of a prediction. @returns undefined if the trace is not sampled */
  prediction(prediction: TracedPrediction): PredictionSpan | undefined;
}

export interface RequestSpan {
  readonly ids: SpanIds;
  ended(route: string, status: number): void;
}

export interface PredictionSpan {
  /**
   * Records the span of a stage that ends now. @param beganMs in `performance.now()` milliseconds @param index index of
   * the input; undefined for the whole prediction
   */
  took(stage: Stage, beganMs: number, index?: number): void;
  /** Begins the span of a batch. @param items count of all items of the batch */
  batch(items: number): BatchSpan;
  /** Ends the span. @param failure reason of a failure; undefined after success */
  ended(failure: string | undefined): void;
}

export interface BatchSpan {
  /** Links the span to a prediction with an item in the batch. */
  link(prediction: PredictionSpan): void;
  /** Records the time of an item in the batch, which ends now. @param beganMs in `performance.now()` milliseconds */
  took(prediction: PredictionSpan, beganMs: number, index: number): void;
  /** Ends the span of the batch. Only the first call counts, so it may be called for each item. */
  ended(): void;
}
