/** Errors of single inputs of a prediction. */
import { SconceError } from "../../base/errors.ts";

export interface ItemFault {
  readonly index: number;
  readonly message: string;
}

/** Names every bad input by its index, as far as that stays readable. */
export function summaryOf(faults: readonly ItemFault[], count: number): string {
  const shown = faults.slice(0, 10).map(({ index, message }) => `input ${index}: ${message}`);
  const rest = faults.length > shown.length ? `; and ${faults.length - shown.length} more, see errors` : "";
  return `${faults.length} of ${count} ${count === 1 ? "input" : "inputs"} failed: ${shown.join("; ")}${rest}`;
}

/** An error of an input, with its index for clients with several inputs. */
class InputError extends SconceError {
  readonly fault: ItemFault;

  constructor(index: number, cause: SconceError) {
    super(cause.code, `input ${index}: ${cause.message}`, { cause });
    this.fault = { index, message: cause.message };
  }
}

export function atInput(index: number, error: SconceError): SconceError {
  return new InputError(index, error);
}

/** The input that an error came from; undefined where it was none. */
export function faultBehind(error: unknown): ItemFault | undefined {
  if (error instanceof InputError) return error.fault;
  return error instanceof Error ? faultBehind(error.cause) : undefined;
}
