/** Makes predictions in progress without an engine: their items never run. */
import { MemoryAccount } from "../../src/pipeline/memory/memory-account.ts";
import { type LiveContext, LivePrediction } from "../../src/predictions/live.ts";
import type { Kind } from "../../src/predictions/record.ts";

let next = 0;

export function livePrediction({
  id = `0id-${next++}`,
  kind = "prediction",
  count = 1,
  memory = new MemoryAccount(),
  maxResultBytes = Infinity,
  hasParts = false,
  onEnd = () => {},
}: {
  id?: string;
  kind?: Kind;
  count?: number;
  memory?: MemoryAccount;
  maxResultBytes?: number;
  hasParts?: boolean;
  onEnd?: LiveContext["onEnd"];
} = {}) {
  const request = {
    id,
    kind,
    count,
    createdAtMs: Date.now(),
    timeoutMs: Infinity,
    body: "[1]",
  } as const;
  const nowMs = performance.now();
  const options = { bytes: 3, charge: memory.add("bodies", 9), nowMs, deadlineMs: Infinity };
  return new LivePrediction(request, options, {
    flow: { run() {}, end: (list) => list.end() },
    encoder: { encode: (output) => JSON.stringify(output) },
    metrics: { took() {} },
    hasParts,
    memory,
    maxResultBytes,
    onStart() {},
    onTimeout() {},
    onEnd,
  });
}
