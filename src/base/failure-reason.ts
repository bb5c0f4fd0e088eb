/** The failure reason of each error code, for metrics. */
import type { ErrorCode } from "./errors.ts";
import type { FailureReason } from "./labels.ts";

/** Failure reasons by error code. All other codes count as `model`. */
const reasons: Partial<Record<ErrorCode, FailureReason>> = {
  canceled: "canceled",
  timed_out: "timeout",
  inputs_invalid: "input",
  input_refused: "input",
  file_refused: "file",
  file_unavailable: "file",
  file_too_large: "file",
  file_invalid: "file",
  out_of_memory: "memory",
  engine_ended: "engine",
  session_closed: "stop",
};

export function reasonOf(code: ErrorCode): FailureReason {
  return reasons[code] ?? "model";
}
