/** `--compare`, of the commands that try a model. */
import { flag, option } from "../../command-line/option.ts";

export const compareOption = option({
  description: "Compare the outputs with those of PyTorch, where a Python with the same torch is at hand",
  default: true,
  parse: flag,
});
