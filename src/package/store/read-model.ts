/**
 * Reads and validates manifests and configs of models. Their content may come from a registry, so it is not trusted.
 */
import { z } from "zod";
import { SconceError } from "../../base/errors.ts";
import { programName } from "../../machine/processes/program-name.ts";
import type { BlobRef, Blobs } from "./blobs.ts";
import type { IndexEntry } from "./index-file.ts";
import {
  faultsOf,
  isForWorkers,
  type LayerMediaType,
  type Manifest,
  type ModelConfig,
  manifestSchema,
  mediaTypes,
  modelConfigSchema,
  sconceApi,
} from "./manifest.ts";

/** A manifest's blob, and the model's name for error messages. */
interface NamedManifest extends BlobRef {
  readonly repository: string;
  readonly tag: string;
}

/** Upper bound for manifests and configs in bytes. Larger blobs are refused. */
export const maxJsonBytes = 64 * 1024 * 1024;

/**
 * Reads a model's manifest.
 * @throws SconceError `store_corrupt` when the blob is missing or damaged, `model_invalid` when it is not a manifest of
 * a sconce model
 */
export async function readManifest(blobs: Blobs, model: NamedManifest): Promise<Manifest> {
  return checkManifest(await readJson(blobs, model), nameOf(model));
}

/**
 * Reads a model's config. @throws SconceError `store_corrupt`, or `model_invalid` when this version of sconce cannot
 * read the config
 */
export async function readConfig(blobs: Blobs, model: NamedManifest, manifest: Manifest): Promise<ModelConfig> {
  return checkConfig(await readJson(blobs, manifest.config), nameOf(model));
}

/**
 * Validates a manifest.
 * @param name the model's name for error messages
 * @throws SconceError `model_invalid` when it is not a manifest of a sconce model
 */
export function checkManifest(content: unknown, name: string): Manifest {
  const { data: kind } = kindSchema.safeParse(content);
  if (kind?.artifactType !== mediaTypes.model) {
    const found = kind?.artifactType ?? kind?.config?.mediaType ?? kind?.mediaType ?? "unknown";
    throw invalid(name, `is not a sconce model: its type is ${found.slice(0, 200)}, expected ${mediaTypes.model}`);
  }
  return parse(manifestSchema, content, name, "manifest");
}

/**
 * Validates a config.
 * @param name the model's name for error messages
 * @throws SconceError `model_invalid` when this version of sconce cannot read the config
 */
export function checkConfig(content: unknown, name: string): ModelConfig {
  const { data: version } = versionSchema.safeParse(content);
  if (version && version.sconceApi !== sconceApi) {
    throw invalid(
      name,
      `was built for version ${version.sconceApi} of sconce's API and this is version ${sconceApi}; build it again`,
    );
  }
  return parse(modelConfigSchema, content, name, "config");
}

/**
 * Layers for running the model, such as weights, whose files the store lacks. Empty for a model that was built here:
 * only a pull can leave out files.
 */
export function missingLayersOf<L extends BlobRef & { readonly mediaType: LayerMediaType }>(
  blobs: Blobs,
  { source }: Pick<IndexEntry, "source">,
  layers: readonly L[],
): readonly L[] {
  return source === undefined ? [] : layers.filter((layer) => isForWorkers(layer) && blobs.lacks(layer));
}

/** The error when weights are needed, but the model was pulled without weights. */
export function withoutWeights({ repository, tag, digest, source }: IndexEntry): SconceError {
  return new SconceError(
    "model_not_found",
    `${repository}:${tag} is in the store without weights, enough only for --role front; fetch the rest with "${programName} pull ${source}@${digest}"`,
  );
}

const kindSchema = z.looseObject({
  mediaType: z.string().optional(),
  artifactType: z.string().optional(),
  config: z.looseObject({ mediaType: z.string() }).optional(),
});

const versionSchema = z.looseObject({ sconceApi: z.number() });

async function readJson(blobs: Blobs, blob: BlobRef): Promise<unknown> {
  if (blob.size > maxJsonBytes) {
    throw new SconceError(
      "store_corrupt",
      `blob ${blob.digest} has ${blob.size} bytes; expected JSON of a few kilobytes`,
    );
  }
  const bytes = await blobs.read(blob);
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch (error) {
    throw new SconceError("store_corrupt", `blob ${blob.digest} is not JSON`, { cause: error });
  }
}

function parse<T>(schema: z.ZodType<T>, content: unknown, name: string, what: string): T {
  const parsed = schema.safeParse(content);
  if (parsed.success) return parsed.data;
  throw invalid(name, `has a ${what} that can't be read: ${faultsOf(parsed.error)}`, parsed.error);
}

function invalid(name: string, why: string, cause?: unknown): SconceError {
  return new SconceError("model_invalid", `${name} ${why}`, { cause });
}

function nameOf({ repository, tag }: NamedManifest): string {
  return `${repository}:${tag}`;
}
