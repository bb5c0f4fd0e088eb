/** Errors of single inputs of a prediction. */
import { SconceError } from "../base/errors.ts";
import { pointerTo } from "../base/json.ts";

export interface ItemFault {
  readonly index: number;
  readonly message: string;
  /** JSON pointer to the field of the request that an author's `InputError` names. */
  readonly pointer?: string | undefined;
}

export function itemFault(index: number, { clientMessage: message, field }: SconceError): ItemFault {
  return field === undefined ? { index, message } : { index, message, pointer: pointerTo([index, field].flat()) };
}

/** A message that names the first ten failed inputs by their index, and the count of the others. */
export function summaryOf(faults: readonly ItemFault[], count: number): string {
  const shown = faults.slice(0, 10).map(({ index, message }) => `input ${index}: ${message}`);
  const rest = faults.length > shown.length ? `; and ${faults.length - shown.length} more, see errors` : "";
  return `${faults.length} of ${count} ${count === 1 ? "input" : "inputs"} failed: ${shown.join("; ")}${rest}`;
}

/** An error of an input. Its message names the index of the input in the request. */
class IndexedError extends SconceError {
  readonly fault: ItemFault;

  constructor(index: number, cause: SconceError) {
    const { code, message, clientMessage } = cause;
    super(code, `input ${index}: ${message}`, { cause, clientMessage: `input ${index}: ${clientMessage}` });
    this.fault = itemFault(index, cause);
  }
}

export function atInput(index: number, error: SconceError): SconceError {
  return new IndexedError(index, error);
}

/** Finds the failed input in an error or its causes; undefined without one. */
export function faultBehind(error: unknown): ItemFault | undefined {
  if (error instanceof IndexedError) return error.fault;
  return error instanceof Error ? faultBehind(error.cause) : undefined;
}
