/** Options of commands that bundle and try a model's code. */
import { z } from "zod";
import { duration, flagOn, listOption, option } from "../../base/option.ts";

export const externalOption = listOption<string>({
  description: "npm package to leave out of the bundle, for an optional import of the model's code",
  valueHint: "name",
  variable: "SCONCE_MODEL_EXTERNAL",
  parse: z.string().regex(/^(@[\w.~-]+\/)?[\w.~-]+$/, "must be the name of an npm package"),
});

export const timeoutOption = option({
  description: "Seconds that one call of the model's code may take",
  default: 300,
  variable: "SCONCE_BUILD_TIMEOUT",
  ...duration("seconds", 0.001),
});

export const compareOption = option({
  description: "Compare the outputs with PyTorch's, if a Python with the same torch is available",
  ...flagOn,
});
