/** `--timeout`, shared by commands that try a model's code. */
import { duration, option } from "../../../base/option.ts";

export const timeoutOption = option({
  description: "Seconds that one call of the model's code may take",
  default: 300,
  variable: "SCONCE_BUILD_TIMEOUT",
  ...duration("seconds", 0.001),
});
