/**
 * Checks layers against their digests, which takes a second per gigabyte. A layer is read again only if its inode, size
 * or times have changed.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { replaceFile } from "../../machine/files/durable.ts";
import { fileStamp } from "../../machine/files/file-stamp.ts";
import { tryLock } from "../../machine/files/lock.ts";
import type { Blobs } from "./blobs.ts";
import type { PackagedModel } from "./packaged-model.ts";
import type { CopyProgress } from "./packaging.ts";

export const stampsSchema = z.record(z.string(), z.string());
/**
 * For each verified blob, by digest: a text of its file's inode, size and times. A changed text means a changed file.
 */
export type Stamps = Readonly<Record<string, string>>;

export interface VerifyOptions {
  /** Stamps of blobs that another process has verified, which are not read again. */
  readonly known?: Stamps;
  readonly onProgress?: (progress: CopyProgress) => void;
  readonly signal?: AbortSignal;
}

const fileName = ".verified";

/**
 * Checks all layers of a model, except layers whose files the store lacks.
 * @returns stamps of the checked layers
 * @throws SconceError `store_corrupt`, or the signal's reason when it is aborted
 */
export async function verifyLayers(
  { layers, missingLayers }: PackagedModel,
  { blobs, home, known, onProgress, signal }: VerifyOptions & { readonly blobs: Blobs; readonly home: string },
): Promise<Stamps> {
  const verified: Stamps = { ...readStamps(home), ...known };
  const stamps: Record<string, string> = {};
  let isAllKnown = true;
  for (const layer of layers.filter((one) => !missingLayers.includes(one))) {
    // Takes the stamp before reading the file, so that a write during the read makes it invalid.
    const stamp = fileStamp(layer.path);
    if (stamp === undefined || verified[layer.digest] !== stamp) {
      isAllKnown = false;
      await blobs.verify(layer, {
        signal,
        onProgress: (doneBytes, totalBytes) => onProgress?.({ title: layer.title, doneBytes, totalBytes }),
      });
    }
    if (stamp !== undefined) stamps[layer.digest] = stamp;
  }
  if (!isAllKnown) remember(stamps, blobs, home);
  return stamps;
}

/** Reads the stamps of earlier checks; empty when their file is missing or damaged. */
function readStamps(home: string): Stamps {
  try {
    return stampsSchema.parse(JSON.parse(readFileSync(join(home, fileName), "utf8")));
  } catch {
    return {};
  }
}

/** Saves the stamps for later checks, without stamps of removed blobs. Saves nothing in a read-only or locked store. */
function remember(stamps: Stamps, blobs: Blobs, home: string): void {
  try {
    using lock = tryLock(join(home, ".lock"));
    if (lock === undefined) return;
    const all = Object.entries({ ...readStamps(home), ...stamps });
    const existing = all.filter(([digest]) => existsSync(blobs.path(digest)));
    replaceFile(join(home, fileName), JSON.stringify(Object.fromEntries(existing)));
  } catch {}
}
