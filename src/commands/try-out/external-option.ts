/** `--external`, shared by commands that bundle a model's code. */
import { z } from "zod";
import { listOption } from "../../command-line/option.ts";

export const externalOption = listOption<string>({
  description: "npm package to leave out of the bundle, one that the model's code imports only where it is there",
  valueHint: "name",
  variable: "SCONCE_MODEL_EXTERNAL",
  parse: z.string().regex(/^(@[\w.~-]+\/)?[\w.~-]+$/, "must be the name of an npm package"),
});
