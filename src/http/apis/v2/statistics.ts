/** Converts the server's metrics of a model to the statistics of the Open Inference Protocol. */
import type { Stage } from "../../../base/labels.ts";
import type { RequestMetrics } from "../../metrics.ts";

/** A second name of the model's only version. Triton's perf_analyzer exits if a version is not a number. */
export const NUMBERED_VERSION = "1";

/**
 * The statistics of a model, per request as the protocol defines. The server measures stages per input, and the inputs of a request run in parallel,
 * so a request counts the mean time of its inputs.
 * @param version the version that the request's path names
 */
export function statisticsOf(metrics: Pick<RequestMetrics, "reader">, name: string, version = NUMBERED_VERSION) {
  const read = metrics.reader();
  const requests = read("sconce_predictions_total", { status: "success" });
  const inputs = read("sconce_items_total", { status: "success" });
  const during = (...stages: Stage[]) => {
    const ofInputs = stages.reduce((sum, stage) => sum + read("sconce_stage_seconds_sum", { stage }), 0);
    return { count: requests, ns: inputs === 0 ? 0 : nanoseconds((ofInputs * requests) / inputs) };
  };
  const failedSeconds = read("sconce_failed_prediction_seconds_total");
  return {
    name,
    version,
    inference_count: inputs,
    execution_count: read("sconce_batch_size_count"),
    inference_stats: {
      success: {
        count: requests,
        ns: nanoseconds(read("sconce_prediction_seconds_sum") - failedSeconds),
      },
      fail: { count: read("sconce_predictions_total", { status: "failed" }), ns: nanoseconds(failedSeconds) },
      queue: during("queue"),
      compute_input: during("fetch", "preprocess_wait", "preprocess"),
      compute_infer: during("forward"),
      compute_output: during("postprocess", "encode"),
      cache_hit: { count: 0, ns: 0 },
      cache_miss: { count: 0, ns: 0 },
    },
    batch_stats: [],
  };
}

function nanoseconds(seconds: number): number {
  return Math.max(0, Math.round(1e9 * seconds));
}
