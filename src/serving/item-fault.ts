/** What went wrong with single inputs of a prediction. */
import { SconceError } from "../errors.ts";

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

/** An error of one input, as told to those who sent several. */
export function atInput(index: number, error: SconceError): SconceError {
  return new SconceError(error.code, `input ${index}: ${error.message}`, { cause: error });
}
