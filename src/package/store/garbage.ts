/** Garbage collection: finds all referenced blobs. */
import { readFileSync } from "node:fs";
import { z } from "zod";
import type { Blobs } from "./blobs.ts";
import type { IndexDescriptor } from "./index-file.ts";

const childSchema = z.looseObject({ mediaType: z.string().optional(), digest: z.string() });

/** Accepts any OCI or Docker manifest or index, since other tools may write to the same store. */
const manifestSchema = z.looseObject({ config: childSchema.optional(), layers: z.array(childSchema).optional() });
const indexSchema = z.looseObject({ manifests: z.array(childSchema).optional() });

const manifestType = /manifest/;
const indexType = /index|manifest\.list/;

/**
 * All digests reachable from the descriptors; undefined when a manifest cannot be read. Synchronous, because the caller
 * holds the store's lock.
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
      // Other fields of a manifest are ignored.
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
