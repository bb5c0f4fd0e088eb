/** The engine in the process of the front, for --no-isolate. */

import type { PackagedModel } from "../package/store/packaged-model.ts";
import type { ServeConfig } from "./config.ts";
import { logShrink } from "./engine-link.ts";
import { logFacts, type RunningModel, settingsOf, setUp } from "./flow/set-up.ts";
import type { FrontTools } from "./front.ts";
import { maxPaddedBytesOf } from "./serve-limits.ts";

export async function runHere(
  packaged: PackagedModel,
  config: ServeConfig,
  { model, fetcher, fileCaps, metrics, hooks }: FrontTools,
): Promise<RunningModel> {
  const running = await setUp({
    model,
    pathOf: (name) => packaged.layer(name).path,
    example: packaged.config.example,
    golden: config.golden ? packaged.golden : undefined,
    settings: settingsOf(config),
    fetcher,
    fileCaps,
    hooks,
    maxPaddedBytes: maxPaddedBytesOf(config),
    observer: metrics,
    onShrink: logShrink,
  });
  logFacts(running.facts);
  return running;
}
