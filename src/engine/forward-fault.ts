/** What a forward pass that fails before the server is ready says to the author: what was tried, and the usual cause. */
import { codedError, oneLine, SconceError } from "../errors.ts";
import { mistakeIn } from "./export-mistakes.ts";

/** Longest part of libtorch's own words: it may list every backend. */
const MAX_SHOWN = 300;

/** @param worked the largest batch that did not fail */
export function forwardFault(error: unknown, { size, worked }: { size: number; worked: number }): SconceError {
  const fault = codedError(error);
  if (fault.code !== "run_failed" && fault.code !== "weights_invalid") return fault;
  const cause = mistakeIn(fault.message)?.cause;
  if (worked === 0 && cause === undefined) return fault;
  const tried =
    worked > 0
      ? `forward failed with a batch of ${size} (${worked} worked): was it traced or exported with a fixed batch, or does an output lack the batch dimension?`
      : `forward failed: ${cause}.`;
  return new SconceError(fault.code, `${tried} ${oneLine(fault.message, MAX_SHOWN)}`, { cause: fault });
}

/** Of weights that run a batch of this size and no single item. */
export function fixedBatchFault(error: unknown, size: number): SconceError {
  const { code, message } = codedError(error);
  const tried = `forward works with a batch of ${size} and not with 1 item: it was traced or exported with a fixed batch.`;
  return new SconceError(code, `${tried} ${oneLine(message, MAX_SHOWN)}`, { cause: error });
}

/** Weights that cannot be loaded, with the usual cause. */
export function loadFault(error: unknown): SconceError {
  const { code, message, cause: from } = codedError(error);
  const cause = mistakeIn(message)?.cause;
  return cause === undefined
    ? codedError(error)
    : new SconceError(code, `${message.replace(/\.$/, "")}: ${cause}`, { cause: from });
}
