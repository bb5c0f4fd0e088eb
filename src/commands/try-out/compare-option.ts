/** `--compare`, shared by `build` and `check`. */
import { flag, option } from "../../command-line/option.ts";

export const compareOption = option({
  description: "Compare the outputs with those of PyTorch, where a Python with the same torch is at hand",
  default: true,
  parse: flag,
});
