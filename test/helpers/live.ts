/** Predictions that nothing works on. */
import { type LiveOptions, LivePrediction } from "../../src/predictions/live.ts";

let next = 0;

export function livePrediction({ count = 1, onEnd = () => {} }: { count?: number; onEnd?: LiveOptions["onEnd"] } = {}) {
  const request = {
    id: `0id-${next++}`,
    kind: "prediction",
    count,
    createdAtMs: Date.now(),
    timeoutMs: Infinity,
    body: "[1]",
  } as const;
  return new LivePrediction({ request, bytes: 3, deadlineMs: Infinity, onEnd });
}
