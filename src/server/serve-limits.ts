/** What the options of `serve` allow each part of a server, whichever process it is in. */
import { version } from "../../package.json";
import { MAX_PADDED_BYTES } from "../engine/fair-queue.ts";
import { memoryLimit } from "../machine/memory-limit.ts";
import { AddressGuard } from "../machine/network/address-guard.ts";
import type { ServeConfig } from "./config.ts";
import { Fetcher } from "./flow/fetcher.ts";
import type { FileCaps } from "./flow/item-pipeline.ts";

/** Fetches files as the operator allows it. */
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

/** What padding adds is counted nowhere else, and a batch is there several times over: stacked, in the forward pass, as outputs. */
export function maxPaddedBytesOf(config: ServeConfig): number {
  return Math.min(MAX_PADDED_BYTES, maxMemoryOf(config) / 8);
}

export function fileCapsOf({ maxFileBytes, maxPixels }: ServeConfig): FileCaps {
  return {
    ...(maxFileBytes === undefined ? {} : { maxBytes: maxFileBytes }),
    ...(maxPixels === undefined ? {} : { maxPixels }),
  };
}
