/** The error for inputs that a model refuses. */
import type { InputField } from "../base/errors.ts";

export interface InputErrorOptions extends ErrorOptions {
  /** The faulty field: its name, or the path to it as in `["boxes", 0, "width"]`. */
  readonly field?: InputField;
}

/**
 * An input that the model refuses. A hook throws it, and the client reads its message as it is. The text of any other
 * error goes into the log only.
 */
export class InputError extends Error {
  override readonly name = "InputError";
  readonly field: InputField | undefined;

  constructor(message: string, { field, ...options }: InputErrorOptions = {}) {
    super(message, options);
    this.field = field;
  }
}
