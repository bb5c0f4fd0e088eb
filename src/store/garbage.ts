/** Which blobs are still needed. */
import { readFileSync } from "node:fs";
import { z } from "zod";
import type { Blobs } from "./blobs.ts";
import type { IndexDescriptor } from "./index-file.ts";

const childSchema = z.looseObject({ mediaType: z.string().optional(), digest: z.string() });

/** Any manifest or index of OCI or Docker, since other tools may have put theirs into the same store. */
const contentSchema = z.looseObject({
  config: childSchema.optional(),
  layers: z.array(childSchema).optional(),
  manifests: z.array(childSchema).optional(),
});

const manifestType = /manifest|index/;

/**
 * Every digest that can be reached from the descriptors, or undefined when a manifest on the way can't be read. Synchronous,
 * since it runs while the store is locked.
 */
export function referencedDigests(blobs: Blobs, descriptors: readonly IndexDescriptor[]): Set<string> | undefined {
  const found = new Set<string>();
  const open: { mediaType?: string | undefined; digest: string }[] = [...descriptors];
  for (let next = open.pop(); next; next = open.pop()) {
    if (found.has(next.digest)) continue;
    found.add(next.digest);
    if (!manifestType.test(next.mediaType ?? "")) continue;
    try {
      const content = contentSchema.parse(JSON.parse(readFileSync(blobs.path(next.digest), "utf8")));
      if (content.config) found.add(content.config.digest);
      for (const layer of content.layers ?? []) found.add(layer.digest);
      open.push(...(content.manifests ?? []));
    } catch {
      return undefined;
    }
  }
  return found;
}
