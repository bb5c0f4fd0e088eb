/** Computes limits from the options of `serve`, and creates the fetcher of files, for all processes of a server. */
import type { OpenedModel } from "../author/define.ts";
import { MAX_PADDED_BYTES } from "../engine/batching/item-queue.ts";
import { memoryLimit } from "../machine/control-groups.ts";
import { AddressGuard } from "../machine/network/address-guard.ts";
import { Fetcher } from "../pipeline/fetcher.ts";
import type { ServeConfig } from "./config.ts";

export function fetcherFor(config: Pick<ServeConfig, "allowPrivateUrls" | "fetchTimeout">): Fetcher {
  return new Fetcher({
    guard: new AddressGuard({ allowPrivate: config.allowPrivateUrls }),
    timeoutMs: config.fetchTimeout * 1000,
  });
}

export function maxMemoryOf({ maxMemory }: ServeConfig): number {
  return maxMemory ?? Math.floor(memoryLimit() / 2);
}

/**
 * Limit in bytes for the padded inputs of a batch: at most an eighth of `--max-memory`, because the memory account
 * ignores padding, and activations and outputs need memory at the same time.
 */
export function maxPaddedBytesOf(config: ServeConfig): number {
  return Math.min(MAX_PADDED_BYTES, maxMemoryOf(config) / 8);
}

/** Maximum inputs of a demo prediction (POST /demo), which the model's page creates: more inputs only slow the page. */
const MAX_DEMO_INPUTS = 64;

export function maxInputsOf(
  model: Pick<OpenedModel, "settings">,
  config: ServeConfig,
): { prediction: number; demo: number } {
  const prediction = Math.min(model.settings.maxInputs ?? config.maxInputs, config.maxQueuedItems);
  return { prediction, demo: Math.min(MAX_DEMO_INPUTS, prediction) };
}

/** Maximum bytes of a body, and of the outputs of a prediction, in Redis, where a larger value would stop all other commands for too long. */
export const MAX_QUEUED_VALUE_BYTES = 64 * 2 ** 20;

/** Seconds after a failed load of a model before a prediction loads it again. */
export const RETRY_LOAD_S = 10;

/** Milliseconds after which a running batch, or an engine process that does not answer, counts as stuck. */
export function stuckAfterMs({ batchTimeout, timeout }: ServeConfig): number {
  return 1000 * (batchTimeout ?? timeout);
}
