/** Opens the runners of a model: on its forward pass, or through its own `predict`, on one device or several. */
import { loadOperators } from "../native/binding.ts";
import { openPredictRunners } from "./predict-runner.ts";
import type { Runner, RunnerOptions } from "./runner.ts";
import { openThreadRunners } from "./thread-runner.ts";

export interface OpenOptions extends Omit<RunnerOptions, "device"> {
  /** `cpu`, or one or more `cuda:N`. */
  readonly devices: readonly string[];
}

/**
 * Opens `instances` runners on each device, with weights of its own; none stays open when one fails.
 * @returns in turn over the devices, so that few batches go to as many of them as there are
 */
export async function openRunners({ devices, ...options }: OpenOptions): Promise<Runner[]> {
  for (const path of options.operators) await loadOperators(path);
  const { predict } = options;
  const opened = await Promise.allSettled(
    devices.map((device) =>
      predict === undefined
        ? openThreadRunners({ ...options, device })
        : openPredictRunners({ ...options, device, predict }),
    ),
  );
  const byDevice = opened.map((one) => (one.status === "fulfilled" ? one.value : []));
  const failed = opened.find((one) => one.status === "rejected");
  if (failed !== undefined) {
    await Promise.all(byDevice.flat().map((runner) => runner.dispose()));
    throw failed.reason;
  }
  return Array.from({ length: options.instances }, (_, i) => byDevice.flatMap((runners) => runners[i] ?? [])).flat();
}
