/** Golden outputs: the outputs of the example, which the package stores so that a server can compare its own. */

import { formatBytes } from "../../base/bytes.ts";
import { log } from "../../base/log.ts";
import { differenceOf, text } from "../../pipeline/difference.ts";
import { type ExampleRun, encodeGolden, MAX_GOLDEN_BYTES } from "../../pipeline/golden.ts";
import { openWeights } from "../../pipeline/set-up.ts";
import { type SourceModel, trialDevices } from "./source-model.ts";
import { nearTies } from "./trial.ts";

/**
 * Runs the example and encodes its outputs. With one thread and without packed layers, every build on a machine gives
 * equal bytes. Counts the elements that differ from the trial, because the trial packs layers as a server does. Counts
 * also the elements that differ from runs with nearly equal inputs.
 * @returns undefined if the encoded outputs are too large to store
 */
export async function goldenOf(source: SourceModel, run: ExampleRun): Promise<Uint8Array | undefined> {
  const { model, pathOf } = source;
  const devices = await trialDevices(source);
  const runners = await openWeights(model, { pathOf, devices, threads: 1, instances: 1, pack: false });
  try {
    const [runner] = runners;
    if (runner === undefined) return undefined;
    const outputs = await runner.run([run.inputs]);
    const ties = await nearTies(runner, run.inputs, outputs);
    const differing = Object.keys(model.tensors.outputs).map((name, i) => {
      const difference = differenceOf(outputs[i], [run.outputs[i]]);
      if (difference.count > 0) log.info(`Two runs of the example differ: output "${name}" ${text(difference)}`);
      return Math.max(difference.count, ties[i] ?? 0);
    });
    const golden = encodeGolden({ inputs: run.inputs, outputs, differing });
    if (golden.length <= MAX_GOLDEN_BYTES) return golden;
    log.info(`The package keeps no outputs of the example: they have ${formatBytes(golden.length)}`);
    return undefined;
  } finally {
    await Promise.all(runners.map((each) => each.dispose()));
  }
}
