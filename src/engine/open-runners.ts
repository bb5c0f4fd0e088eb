/** Opens the runners of a model: on its forward pass, or through its own `predict`. */
import { loadOperators } from "../native/binding.ts";
import { openPredictRunners } from "./predict-runner.ts";
import type { Runner, RunnerOptions } from "./runner.ts";
import { openThreadRunners } from "./thread-runner.ts";

/** Opens `instances` runners on the same weights; none stays open when one fails. */
export async function openRunners(options: RunnerOptions): Promise<Runner[]> {
  for (const path of options.operators) await loadOperators(path);
  const { predict } = options;
  return predict === undefined ? openThreadRunners(options) : openPredictRunners({ ...options, predict });
}
