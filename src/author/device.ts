/** Syntax of the device setting, shared by the author's `device` and the operator's `--device`. */
import * as z from "./z.ts";

/** Schema of a device, or of GPUs separated by commas. */
export const deviceText = z.string("must be a text").superRefine((text, context) => {
  const fault = faultOf(text);
  if (fault !== undefined) context.addIssue({ code: "custom", message: fault });
});

/** Splits the text into devices. `cuda` becomes `cuda:0`. */
export function devicesIn(text: string): string[] {
  return text.split(",").map((name) => (name === "cuda" ? "cuda:0" : name.replace(/^cuda:0+(?=\d)/, "cuda:")));
}

function faultOf(text: string): string | undefined {
  const names = devicesIn(text);
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (names.every((name) => /^(auto|cpu|cuda:(\d+|all))$/.test(name)) && twice !== undefined) {
    return `must name ${twice} once; to run several copies on one device, use --instances`;
  }
  if (/^(auto|cpu|cuda:all|cuda(:\d+)?(,cuda(:\d+)?)*)$/.test(text)) return undefined;
  return 'must be "auto", "cpu", "cuda", "cuda:N", "cuda:all", or GPUs as in "cuda:0,cuda:1"';
}
