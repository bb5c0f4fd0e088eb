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
import { formatReference } from "./reference.ts";

/** Upper bound in bytes for the config that a registry sends. */
export const maxJsonBytes = 64 * 1024 * 1024;

/**
 * Reads a model's manifest from the store.
 * @throws SconceError `store_corrupt` when the blob is missing or damaged, `model_invalid` as `parseManifest`
 */
export async function readManifest(blobs: Blobs, entry: IndexEntry): Promise<Manifest> {
  return parseManifest(await blobs.read(entry), formatReference(entry));
}

/** Reads a model's config from the store. @throws SconceError `store_corrupt`, or `model_invalid` as `parseConfig` */
export async function readConfig(blobs: Blobs, entry: IndexEntry, { config }: Manifest): Promise<ModelConfig> {
  return parseConfig(await blobs.read(config), formatReference(entry));
}

/**
 * Parses and validates a manifest.
 * @param name the model's name for error messages
 * @throws SconceError `model_invalid` when it is not a manifest of a sconce model
 */
export function parseManifest(bytes: Uint8Array, name: string): Manifest {
  const content = parseJson(bytes, name, "manifest");
  const { data: kind } = kindSchema.safeParse(content);
  if (kind?.artifactType !== mediaTypes.model) {
    const found = kind?.artifactType ?? kind?.config?.mediaType ?? kind?.mediaType ?? "unknown";
    throw invalid(name, `is not a sconce model: its type is ${found.slice(0, 200)}, expected ${mediaTypes.model}`);
  }
  return parse(manifestSchema, content, name, "manifest");
}

/**
 * Parses and validates a config.
 * @param name the model's name for error messages
 * @throws SconceError `model_invalid` when this version of sconce cannot read the config
 */
export function parseConfig(bytes: Uint8Array, name: string): ModelConfig {
  const content = parseJson(bytes, name, "config");
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

function parseJson(bytes: Uint8Array, name: string, what: string): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    throw invalid(name, `has a ${what} that is not JSON`, cause);
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
