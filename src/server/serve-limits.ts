/** Limits from the options of `serve`, for all processes. */
import { version } from "../../package.json";
import { MAX_PADDED_BYTES } from "../engine/fair-queue.ts";
import { memoryLimit } from "../machine/memory-limit.ts";
import { AddressGuard } from "../machine/network/address-guard.ts";
import type { ServeConfig } from "./config.ts";
import { Fetcher } from "./flow/fetcher.ts";
import type { FileCaps } from "./flow/item-pipeline.ts";

export function fetcherFor(config: Pick<ServeConfig, "allowPrivateUrls" | "fetchTimeout">): Fetcher {
  return new Fetcher({
    guard: new AddressGuard({ allowPrivate: config.allowPrivateUrls }),
    timeoutMs: config.fetchTimeout * 1000,
    maxBytes: Number.MAX_SAFE_INTEGER,
    userAgent: `sconce/${version}`,
  });
}

export function maxMemoryOf({ maxMemory }: ServeConfig): number {
  return maxMemory ?? Math.floor(memoryLimit() / 2);
}

/** An eighth of the memory: charges ignore padding, and a batch exists as stacked inputs, activations and outputs at once. */
export function maxPaddedBytesOf(config: ServeConfig): number {
  return Math.min(MAX_PADDED_BYTES, maxMemoryOf(config) / 8);
}

export function fileCapsOf({ maxFileBytes, maxPixels }: ServeConfig): FileCaps {
  return {
    ...(maxFileBytes === undefined ? {} : { maxBytes: maxFileBytes }),
    ...(maxPixels === undefined ? {} : { maxPixels }),
  };
}

/** Seconds from a failed load of a model to its next load for a prediction. */
export const RETRY_LOAD_S = 10;

/** How long a batch may run, and how long the engine process may be unresponsive. */
export function stuckAfterMs({ batchTimeout, timeout }: ServeConfig): number {
  return 1000 * (batchTimeout ?? timeout);
}

/**
 * How long a front may be unresponsive. A blocking hook is interrupted sooner, except in native code and after an `await`.
 * Without isolation, a `predict` function may block the process as long as a batch may run.
 */
export function heldAfterMs(config: ServeConfig): number {
  const hookMs = 2000 * config.hookTimeout;
  return config.isolate ? hookMs : Math.max(hookMs, stuckAfterMs(config));
}
