/** Schemas of a packaged model in stores and registries: manifest, config and layers. */
import { z } from "zod";
import { limitFaults } from "../../author/fault-limit.ts";
import { openAiFields } from "../../author/openai.ts";
import { arrayTypes, type DType } from "../../author/tensor.ts";
import { isDigest } from "./reference.ts";

export const mediaTypes = {
  manifest: "application/vnd.oci.image.manifest.v1+json",
  index: "application/vnd.oci.image.index.v1+json",
  model: "application/vnd.sconce.model.v1",
  config: "application/vnd.sconce.model.config.v1+json",
  bundle: "application/vnd.sconce.bundle.v1+js",
  weights: "application/vnd.sconce.weights.v1",
  operators: "application/vnd.sconce.operators.v1",
  asset: "application/vnd.sconce.asset.v1",
  golden: "application/vnd.sconce.golden.v1",
} as const;

/** Content of the file `oci-layout`, which marks an OCI image layout. */
export const ociLayout = '{"imageLayoutVersion":"1.0.0"}\n';

const layerMediaTypes = [
  mediaTypes.bundle,
  mediaTypes.weights,
  mediaTypes.operators,
  mediaTypes.asset,
  mediaTypes.golden,
] as const;
export type LayerMediaType = (typeof layerMediaTypes)[number];

/** Title of the layer that holds the example's golden outputs. */
export const goldenTitle = "example.golden";

/** Whether only model processes open the layer. A front needs no weights, operators or golden outputs. */
export function isForWorkers({ mediaType }: { readonly mediaType: LayerMediaType }): boolean {
  return mediaType !== mediaTypes.bundle && mediaType !== mediaTypes.asset;
}

export const annotations = {
  title: "org.opencontainers.image.title",
  refName: "org.opencontainers.image.ref.name",
  created: "org.opencontainers.image.created",
  /** Used only in index.json: registry repositories that hold the model, separated by blanks. */
  copies: "vnd.sconce.copies",
  /** Used only in index.json: digest of the path of the folder that the model was built from. */
  folder: "vnd.sconce.folder",
} as const;

/** Version of the interface between a bundle and the `sconce` package that loads it. */
export const sconceApi = 1;

const digestSchema = z.string().refine(isDigest, 'expected "sha256:" and 64 hex digits');
const sizeSchema = z.int().nonnegative();

/** A layer's title: a relative path that cannot leave its folder, since a registry may send any string. */
export const titleSchema = z
  .string()
  .min(1)
  .max(1024)
  .refine(staysInside, "expected a relative path without empty, '.' or '..' parts, backslashes or control characters");

const layerSchema = z.looseObject({
  mediaType: z.enum(layerMediaTypes),
  digest: digestSchema,
  size: sizeSchema,
  annotations: z.looseObject({ [annotations.title]: titleSchema }),
});
export const manifestSchema = z.looseObject({
  schemaVersion: z.literal(2),
  mediaType: z.literal(mediaTypes.manifest),
  artifactType: z.literal(mediaTypes.model),
  config: z.looseObject({ mediaType: z.literal(mediaTypes.config), digest: digestSchema, size: sizeSchema }),
  layers: z
    .array(layerSchema)
    .refine(
      (layers) => new Set(layers.map((layer) => layer.annotations[annotations.title])).size === layers.length,
      "two layers have the same title",
    ),
});
export type Manifest = z.infer<typeof manifestSchema>;

const dtypes = Object.keys(arrayTypes).filter((name): name is DType => name in arrayTypes);

const dimSchema = z.union([
  z.int().nonnegative(),
  z.string().min(1),
  z.object({ name: z.string().min(1), value: z.number() }),
]);

/**
 * A declared tensor of one item, without the batch dimension. The list order is the argument order of the forward call.
 */
const namedTensorSchema = z.object({
  name: z.string().min(1),
  dtype: z.enum(dtypes),
  dims: z.array(dimSchema),
});
const jsonSchemaSchema = z.record(z.string(), z.unknown());

/**
 * Content of the config blob: all facts about a model that need no loading. Build times or machine names must not
 * appear, or equal content would get different tags.
 */
export const modelConfigSchema = z.object({
  sconceApi: z.literal(sconceApi),
  name: z.string().min(1),
  description: z.string().optional(),
  inputSchema: jsonSchemaSchema,
  outputSchema: jsonSchemaSchema,
  /** Set if outputs come in parts. */
  partSchema: jsonSchemaSchema.optional(),
  demoOutputSchema: jsonSchemaSchema.optional(),
  paramsSchema: jsonSchemaSchema.optional(),
  inputs: z.array(namedTensorSchema),
  outputs: z.array(namedTensorSchema),
  batchSize: z.int().positive(),
  torchVersion: z.string(),
  device: z.string().optional(),
  /** Processor that compiled weights need: architecture, then features by their -m flags, e.g. `x86_64 avx2 fma`. */
  cpuCapability: z.string().optional(),
  example: z.unknown().optional(),
  /** Further examples for the demo page. */
  examples: z.array(z.unknown()).optional(),
  /** Declared fields of the OpenAI API. */
  openai: openAiFields.optional(),
});
export type ModelConfig = z.infer<typeof modelConfigSchema>;

/** Limits the number of reported faults: a hostile document can contain one every two bytes. */
const maxFaults = 3;
for (const schema of [manifestSchema, modelConfigSchema]) limitFaults(schema, maxFaults);

/** The first few faults of a document, as one line. */
export function faultsOf({ issues }: z.ZodError): string {
  return z.prettifyError(new z.ZodError(issues.slice(0, maxFaults))).replaceAll("\n", " ");
}

/** Whether the title is a normalised relative path inside the folder. */
export function staysInside(title: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  if (/[\\\u0000-\u001f\u007f]/.test(title)) return false;
  return title.split("/").every((part) => part !== "" && part !== "." && part !== "..");
}
