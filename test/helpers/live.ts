/** Makes predictions in progress without an engine: their items never run. */
import { MemoryAccount } from "../../src/pipeline/memory/memory-account.ts";
import { type LiveOptions, LivePrediction } from "../../src/predictions/live.ts";
import { PartLog } from "../../src/predictions/part-log.ts";
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
  onEnd?: LiveOptions["onEnd"];
} = {}) {
  const request = {
    id,
    kind,
    count,
    createdAtMs: Date.now(),
    timeoutMs: Infinity,
    body: "[1]",
  } as const;
  return new LivePrediction({
    request,
    bytes: 3,
    charge: memory.add("bodies", 9),
    deadlineMs: Infinity,
    parts: hasParts ? new PartLog(memory.add("outputs", 0)) : undefined,
    memory,
    maxResultBytes,
    onEnd,
  });
}
