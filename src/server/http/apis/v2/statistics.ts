/** Counts and durations of a model in the form of the protocol, from the server's metrics. */
import type { Stage } from "../../../../base/labels.ts";
import type { Metrics } from "../../../metrics/metrics.ts";

/** Durations are of inputs, each in its stage; `success` and `fail` are of predictions. */
export function statisticsOf(metrics: Metrics, { name, tag }: { readonly name: string; readonly tag: string }) {
  const read = metrics.reader();
  const during = (...stages: Stage[]) => ({
    count: read(`sconce_stage_seconds_count`, { stage: stages.at(-1) ?? "" }),
    ns: nanoseconds(stages.reduce((sum, stage) => sum + read("sconce_stage_seconds_sum", { stage }), 0)),
  });
  const failedSeconds = read("sconce_failed_prediction_seconds_total");
  return {
    name,
    version: tag,
    inference_count: read("sconce_items_total", { status: "success" }),
    execution_count: read("sconce_batch_size_count"),
    inference_stats: {
      success: {
        count: read("sconce_predictions_total", { status: "success" }),
        ns: nanoseconds(read("sconce_prediction_seconds_sum") - failedSeconds),
      },
      fail: { count: read("sconce_predictions_total", { status: "failed" }), ns: nanoseconds(failedSeconds) },
      queue: during("queue"),
      compute_input: during("fetch", "preprocess"),
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
