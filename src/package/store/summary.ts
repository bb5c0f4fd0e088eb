/** Summarizes models of the store for lists, such as the output of `sconce models`. */
import { SconceError } from "../../base/errors.ts";
import type { BlobRef, Blobs } from "./blobs.ts";
import type { IndexEntry } from "./index-file.ts";
import { newest } from "./lookup.ts";
import type { Manifest } from "./manifest.ts";
import { missingLayersOf, readManifest } from "./read-model.ts";
import { generatedTag, latestTag } from "./reference.ts";

export interface ModelSummary {
  readonly repository: string;
  /** The tag made from the digest first, then `latest`, then the other tags by name. */
  readonly tags: readonly string[];
  readonly digest: string;
  /** Total size of manifest, config and layers in bytes; 0 when the manifest cannot be read. */
  readonly size: number;
  readonly created: Date | undefined;
  /** Whether the model was pulled without weights. */
  readonly withoutWeights: boolean;
  /** Why the manifest cannot be read; undefined if it can. */
  readonly problem: string | undefined;
}

/**
 * Summarizes a model; undefined when it is not a sconce model.
 * @param entries all index entries of the model
 */
export async function summarize(blobs: Blobs, entries: readonly IndexEntry[]): Promise<ModelSummary | undefined> {
  const entry = newest(entries);
  if (!entry) return undefined;
  const generated = generatedTag(entry.digest);
  const rank = (tag: string) => (tag === generated ? 0 : tag === latestTag ? 1 : 2);
  const summary = {
    repository: entry.repository,
    tags: entries.map(({ tag }) => tag).sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1)),
    digest: entry.digest,
    created: entry.created,
  };
  try {
    const manifest = await readManifest(blobs, entry);
    const withoutWeights = missingLayersOf(blobs, entry, manifest.layers).length > 0;
    return { ...summary, size: sizeOf(entry, manifest), withoutWeights, problem: undefined };
  } catch (error) {
    if (!(error instanceof SconceError)) throw error;
    return error.code === "model_invalid"
      ? undefined
      : { ...summary, size: 0, withoutWeights: false, problem: error.message };
  }
}

/** Total size of manifest, config and layers in bytes. */
export function sizeOf(entry: BlobRef, manifest: Manifest): number {
  return manifest.layers.reduce((bytes, layer) => bytes + layer.size, entry.size + manifest.config.size);
}
