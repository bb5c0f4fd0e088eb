/** `--external`, shared by commands that bundle a model's code. */
import { z } from "zod";
import { listOption } from "../../../base/option.ts";

export const externalOption = listOption<string>({
  description: "npm package to leave out of the bundle, for an optional import of the model's code",
  valueHint: "name",
  variable: "SCONCE_MODEL_EXTERNAL",
  parse: z.string().regex(/^(@[\w.~-]+\/)?[\w.~-]+$/, "must be the name of an npm package"),
});
