/** Schemas of an OCI image's JSON documents. They accept and keep unknown fields. */
import { z } from "zod";
import { annotations } from "../store/manifest.ts";
import { isDigest } from "../store/reference.ts";

export const imageConfigType = "application/vnd.oci.image.config.v1+json";

export const refNameKey = annotations.refName;

export const descriptorSchema = z.looseObject({
  mediaType: z.string(),
  digest: z.string().refine(isDigest, 'expected "sha256:" and 64 hex digits'),
  size: z.int().nonnegative(),
  artifactType: z.string().optional(),
  platform: z.looseObject({ architecture: z.string(), os: z.string() }).optional(),
  annotations: z.record(z.string(), z.string()).optional(),
});
export type Descriptor = z.infer<typeof descriptorSchema>;

export const imageIndexSchema = z.looseObject({
  schemaVersion: z.literal(2),
  manifests: z.array(descriptorSchema),
});
export type ImageIndex = z.infer<typeof imageIndexSchema>;
