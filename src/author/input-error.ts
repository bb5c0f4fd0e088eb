/** The error for inputs that a model refuses. */
import type { InputField } from "../base/errors.ts";
import { anything, checkOptions, optionsOf } from "./options.ts";

export interface InputErrorOptions extends ErrorOptions {
  /** The faulty field: its name, or the path to it as in `["boxes", 0, "width"]`. */
  readonly field?: InputField;
}

const inputErrorOptions = optionsOf({ field: anything, cause: anything });

/**
 * Thrown by the author's functions for an input that the model refuses. The client reads the message unchanged. The
 * text of an ordinary Error goes only to the log.
 */
export class InputError extends Error {
  override readonly name = "InputError";
  readonly field: InputField | undefined;

  constructor(message: string, given: InputErrorOptions = {}) {
    checkOptions("InputError", inputErrorOptions, given, "item_failed");
    const { field, ...options } = given;
    super(message, options);
    this.field = field;
  }
}
