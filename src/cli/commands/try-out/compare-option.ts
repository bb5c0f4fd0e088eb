/** `--compare`, shared by `build` and `check`. */
import { flag, option } from "../../../base/option.ts";

export const compareOption = option({
  description: "Compare the outputs with PyTorch's, if a Python with the same torch is available",
  default: true,
  parse: flag,
});
