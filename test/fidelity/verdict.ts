/** The verdict on one run of a case. Child processes print it as a line of JSON. */
import { z } from "zod";

export const outcomes = {
  same: "to the last bit",
  close: "within rounding",
  beyond: "beyond the tolerance, but as close to PyTorch's float64 result as its float32 result is",
  bothRefuse: "refused by PyTorch and by sconce",
  refusedAtLoad: "refused when it is opened",
  refusedAtRun: "refused when it is run",
  different: "another answer",
  notRefused: "an answer where PyTorch refuses",
  died: "the process died",
  stuck: "no end",
  uncompiled: "not run: AOTInductor did not finish compiling in time",
} as const;

export type Outcome = keyof typeof outcomes;

export const right: readonly Outcome[] = ["same", "close", "bothRefuse"];

/** Outcomes that must never happen: a wrong result, a missing refusal, a crash or a hang. */
export const wrong: readonly Outcome[] = ["different", "notRefused", "died", "stuck"];

export const verdict = z.object({
  case: z.string(),
  group: z.string(),
  run: z.string(),
  outcome: z.enum(Object.keys(outcomes) as [Outcome, ...Outcome[]]),
  detail: z.string().default(""),
  source: z.string().default(""),
});
export type Verdict = z.infer<typeof verdict>;

export const message = z.union([
  z.object({ begins: z.number() }),
  z.object({ isCompiling: z.boolean() }),
  z.object({ verdict }),
]);
