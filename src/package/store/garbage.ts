/** Lists the blobs that an OCI index needs, so that all others can be removed. */
import { readFileSync } from "node:fs";
import { z } from "zod";
import type { Blobs } from "./blobs.ts";
import type { IndexDescriptor } from "./index-file.ts";

const childSchema = z.looseObject({ mediaType: z.string().optional(), digest: z.string() });

/** Matches OCI and Docker manifests of any kind, because other tools may write to the same folder. */
const manifestSchema = z.looseObject({ config: childSchema.optional(), layers: z.array(childSchema).optional() });
const indexSchema = z.looseObject({ manifests: z.array(childSchema).optional() });

const manifestType = /manifest/;
const indexType = /index|manifest\.list/;

/**
 * Digests of the blobs that are reachable from the descriptors through indexes and manifests. Synchronous, because the
 * caller holds a lock.
 * @returns undefined if an index or manifest cannot be read, so that its blobs are unknown
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
