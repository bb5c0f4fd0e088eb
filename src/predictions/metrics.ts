/** The events of predictions, of the queue and of webhooks that the server counts. */
import type { FailureReason, QueueFault, Stage, WebhookResult } from "../base/labels.ts";

export interface EndedPrediction {
  readonly count: number;
  readonly itemsSucceeded: number;
  readonly itemsFailed: ReadonlyMap<FailureReason, number> | undefined;
  /** Why the prediction failed; undefined after success. */
  readonly failedFor: FailureReason | undefined;
}

export interface PredictionMetrics {
  took(stage: Stage, ms: number): void;
  predictionEnded(ended: EndedPrediction, seconds: number): void;
  queueFailed(reason: QueueFault): void;
  queueTook(counts: Readonly<Record<"taken" | "reclaimed" | "givenUp", number>>): void;
  webhook(result: WebhookResult): void;
}
