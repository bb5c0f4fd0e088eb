/** Writes a model's files, config and manifest as blobs. */
import type { z } from "zod";
import { messageOf, SconceError } from "../../base/errors.ts";
import type { BlobRef, Blobs, CopyOptions, StagedBlob } from "./blobs.ts";
import {
  annotations,
  faultsOf,
  type LayerMediaType,
  type ModelConfig,
  manifestSchema,
  mediaTypes,
  modelConfigSchema,
} from "./manifest.ts";

/** A file to package. `source` is its path, or its bytes. */
export interface LayerSource {
  readonly mediaType: LayerMediaType;
  /** Relative path of the file in the model, unique among the layers. */
  readonly title: string;
  readonly source: string | Uint8Array;
}

export interface CopyProgress {
  /** Title of the layer that is being copied. */
  readonly title: string;
  readonly doneBytes: number;
  readonly totalBytes: number;
}

export interface PutOptions {
  readonly repository: string;
  /** Tags for the model. The tag made from the digest is added. */
  readonly tags?: readonly string[];
  /** Whether an existing tag `latest` stays at its model. By default, `latest` moves to the new build. */
  readonly isVariant?: boolean;
  readonly config: ModelConfig;
  readonly layers: readonly LayerSource[];
  readonly onProgress?: (progress: CopyProgress) => void;
  readonly signal?: AbortSignal;
}

export interface StagedPackage {
  readonly manifest: BlobRef;
  /** Blobs of manifest, config and layers. */
  readonly blobs: readonly StagedBlob[];
}

/**
 * Writes the blobs of a model to temporary files in `folder`. Equal content gives an identical manifest.
 * @param reuse false writes copies even of blobs that the store has
 * @throws SconceError `model_invalid`, or the signal's reason when it is aborted
 */
export async function stagePackage(
  blobs: Blobs,
  options: PutOptions,
  { folder, reuse }: { folder: string; reuse: boolean },
): Promise<StagedPackage> {
  const config = parse(modelConfigSchema, options.config, "config");
  const staged: StagedBlob[] = [];
  const stage = async (source: string | Uint8Array, copyOptions: CopyOptions = {}): Promise<BlobRef> => {
    const blob = await blobs.stage(source, folder, { ...copyOptions, signal: options.signal, reuse });
    staged.push(blob);
    return { digest: blob.digest, size: blob.size };
  };
  const layers: (BlobRef & { mediaType: LayerMediaType; annotations: Record<string, string> })[] = [];
  // Sorted, because the order of the files would change the manifest's digest.
  for (const { mediaType, title, source } of options.layers.toSorted((a, b) => (a.title < b.title ? -1 : 1))) {
    const onProgress = (doneBytes: number, totalBytes: number) =>
      options.onProgress?.({ title, doneBytes, totalBytes });
    const blob = await stage(source, { onProgress }).catch((error: unknown) => rethrowUnreadable(error, source));
    layers.push({ mediaType, ...blob, annotations: { [annotations.title]: title } });
  }
  const manifest = {
    schemaVersion: 2,
    mediaType: mediaTypes.manifest,
    artifactType: mediaTypes.model,
    config: { mediaType: mediaTypes.config, ...(await stage(encodeJson(config))) },
    layers,
  };
  return { manifest: await stage(encodeJson(parse(manifestSchema, manifest, "layers"))), blobs: staged };
}

function encodeJson(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}

function parse<T>(schema: z.ZodType<T>, content: unknown, what: string): T {
  const parsed = schema.safeParse(content);
  if (parsed.success) return parsed.data;
  const message = `the model's ${what} can't be packaged: ${faultsOf(parsed.error)}`;
  throw new SconceError("model_invalid", message, { cause: parsed.error });
}

function rethrowUnreadable(error: unknown, source: string | Uint8Array): never {
  if (!(error instanceof Error && "path" in error && error.path === source)) throw error;
  throw new SconceError("model_invalid", `${source} can't be read: ${messageOf(error)}`, { cause: error });
}
