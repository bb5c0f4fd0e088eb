/** Golden outputs: the outputs of the example, which the package stores so that a server can compare its own. */

import type { Tensor } from "../../author/tensor.ts";
import { formatBytes } from "../../base/bytes.ts";
import { log } from "../../base/log.ts";
import { resolveDevices } from "../../engine/device.ts";
import { encodeGolden, MAX_GOLDEN_BYTES } from "../../pipeline/golden.ts";
import { openWeights } from "../../pipeline/set-up.ts";
import { deviceOverride, type SourceModel } from "./source-model.ts";

/**
 * Runs the example and encodes its outputs. With one thread and without packed layers, every build on a machine gives
 * equal bytes.
 * @returns undefined if the encoded outputs are too large to store
 */
export async function goldenOf(source: SourceModel, item: readonly Tensor[]): Promise<Uint8Array | undefined> {
  const { model, pathOf } = source;
  const weights = Object.values(model.weights).map(pathOf);
  const devices = await resolveDevices({ operator: deviceOverride(model), author: model.settings.device, weights });
  const runners = await openWeights(model, { pathOf, devices, threads: 1, instances: 1, pack: false });
  try {
    const [runner] = runners;
    if (runner === undefined) return undefined;
    const golden = encodeGolden({ inputs: item, outputs: await runner.run([item]) });
    if (golden.length <= MAX_GOLDEN_BYTES) return golden;
    log.info(`The package keeps no outputs of the example: they have ${formatBytes(golden.length)}`);
    return undefined;
  } finally {
    await Promise.all(runners.map((each) => each.dispose()));
  }
}
