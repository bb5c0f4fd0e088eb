/**
 * Checks files of models against their digests, which takes a second for each gigabyte, and remembers what the file system says of those
 * that were right: they are read again when that has changed.
 */
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { Blobs } from "./blobs.ts";
import { replaceFile } from "./durable.ts";
import { tryLock } from "./lock.ts";
import type { PackagedModel } from "./packaged-model.ts";
import type { CopyProgress } from "./packaging.ts";

export const stampsSchema = z.record(z.string(), z.string());
/** What the file system says of blobs that had the content of their digest, by digest. */
export type Stamps = Readonly<Record<string, string>>;

export interface VerifyOptions {
  /** Of files that another process has checked. */
  readonly known?: Stamps;
  readonly onProgress?: (progress: CopyProgress) => void;
  readonly signal?: AbortSignal;
}

const fileName = ".verified";

/**
 * @returns the stamps of all layers that are there
 * @throws SconceError `store_corrupt`, or the signal's reason when it is aborted
 */
export async function verifyLayers(
  { layers, lacking }: PackagedModel,
  { blobs, home, known, onProgress, signal }: VerifyOptions & { readonly blobs: Blobs; readonly home: string },
): Promise<Stamps> {
  const right: Stamps = { ...readStamps(home), ...known };
  const stamps: Record<string, string> = {};
  let isAllKnown = true;
  for (const layer of layers.filter((one) => !lacking.includes(one))) {
    // Taken before the file is read: what is written meanwhile has another one.
    const stamp = stampOf(layer.path);
    if (stamp === undefined || right[layer.digest] !== stamp) {
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

/** Changes with the content: no program can set the time of a file's last change (ctime). Undefined where there is no file. */
function stampOf(path: string): string | undefined {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found && [found.ino, found.size, found.mtimeNs, found.ctimeNs].join(" ");
}

/** None where the file is missing or damaged. */
function readStamps(home: string): Stamps {
  try {
    return stampsSchema.parse(JSON.parse(readFileSync(join(home, fileName), "utf8")));
  } catch {
    return {};
  }
}

/** For as long as the blobs are there. A store that can't be written is checked each time. */
function remember(stamps: Stamps, blobs: Blobs, home: string): void {
  try {
    using lock = tryLock(join(home, ".lock"));
    if (lock === undefined) return;
    const all = Object.entries({ ...readStamps(home), ...stamps });
    const kept = all.filter(([digest]) => existsSync(blobs.path(digest)));
    replaceFile(join(home, fileName), JSON.stringify(Object.fromEntries(kept)));
  } catch {}
}
