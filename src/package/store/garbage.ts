/** Finds all blobs that the index refers to, for garbage collection. */
import { readFileSync } from "node:fs";
import { z } from "zod";
import type { Blobs } from "./blobs.ts";
import type { IndexDescriptor } from "./index-file.ts";

const childSchema = z.looseObject({ mediaType: z.string().optional(), digest: z.string() });

/** Any OCI or Docker manifest, since other tools may write to the same store. */
const manifestSchema = z.looseObject({ config: childSchema.optional(), layers: z.array(childSchema).optional() });
const indexSchema = z.looseObject({ manifests: z.array(childSchema).optional() });

const manifestType = /manifest/;
const indexType = /index|manifest\.list/;

/**
 * All digests that the descriptors refer to, directly or through manifests; undefined when a manifest cannot be read.
 * Synchronous, because the caller holds the store's lock.
 */
export function referencedDigests(blobs: Blobs, descriptors: readonly IndexDescriptor[]): Set<string> | undefined {
  const found = new Set<string>();
  const open: { mediaType?: string | undefined; digest: string }[] = [...descriptors];
  for (let next = open.pop(); next; next = open.pop()) {
    if (found.has(next.digest)) continue;
    found.add(next.digest);
    const { mediaType = "" } = next;
    const isIndex = indexType.test(mediaType);
    if (!isIndex && !manifestType.test(mediaType)) continue;
    try {
      const content: unknown = JSON.parse(readFileSync(blobs.path(next.digest), "utf8"));
      // Follows only the fields of indexes and manifests that name blobs.
      if (isIndex) {
        for (const manifest of indexSchema.parse(content).manifests ?? []) open.push(manifest);
        continue;
      }
      const { config, layers = [] } = manifestSchema.parse(content);
      for (const { digest } of config ? [config, ...layers] : layers) found.add(digest);
    } catch {
      return undefined;
    }
  }
  return found;
}
