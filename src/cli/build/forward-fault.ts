/** Errors for the author when loading or a forward pass fails during start, with the usual cause. */
import { codedError, oneLine, SconceError } from "../../base/errors.ts";
import { mistakeIn } from "./export-mistakes.ts";

/** Maximum characters of a quoted libtorch message, which may list every backend. */
const MAX_SHOWN = 300;

/**
 * The error for a failed forward pass. @param size items in the failed batch @param worked the largest batch size that
 * ran without an error; 0 if none did
 */
export function forwardFault(error: unknown, { size, worked }: { size: number; worked: number }): SconceError {
  const fault = codedError(error);
  if (fault.code !== "run_failed" && fault.code !== "weights_invalid") return fault;
  const cause = fixedRowsCause(fault.message, size) ?? mistakeIn(fault.message)?.cause;
  if (worked === 0 && cause === undefined) return fault;
  const tried =
    worked > 0
      ? `forward failed with a batch of ${size} (${worked} worked): was it traced or exported with a fixed batch, or does an output lack the batch dimension?`
      : `forward failed: ${cause}.`;
  return new SconceError(fault.code, `${tried} ${oneLine(fault.message, MAX_SHOWN)}`, { cause: fault });
}

/**
 * The cause of a failed reshape, if tracing replaced `x.shape[0]` by a number.
 * @param rows count of rows in the failed batch
 * @returns undefined if the message names no reshape, or if no number of rows fits
 */
export function fixedRowsCause(message: string, rows: number): string | undefined {
  const [, shape = "", size] = /shape '\[([\d, ]+)\]' is invalid for input of size (\d+)/.exec(message) ?? [];
  const elements = shape.split(",").reduce((product, each) => product * Number(each), rows);
  const wanted = elements / Number(size);
  if (!Number.isInteger(wanted) || wanted === rows) return undefined;
  return `the network was traced or exported for a fixed batch of ${wanted}; in forward write x.shape[0], not a number, and export with the batch left free`;
}

export function fixedBatchFault(error: unknown, size: number): SconceError {
  const { code, message } = codedError(error);
  const cause = fixedRowsCause(message, 1) ?? "it was traced or exported with a fixed batch";
  const tried = `forward works with a batch of ${size} and not with 1 item: ${cause}.`;
  return new SconceError(code, `${tried} ${oneLine(message, MAX_SHOWN)}`, { cause: error });
}

export function loadFault(error: unknown): SconceError {
  const { code, message, cause: from } = codedError(error);
  const cause = mistakeIn(message)?.cause;
  return cause === undefined
    ? codedError(error)
    : new SconceError(code, `${message.replace(/\.$/, "")}: ${cause}`, { cause: from });
}
