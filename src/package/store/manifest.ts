/** Schemas of a model in stores and registries: its OCI manifest, its config, and its layers, which are files. */
import { z } from "zod";
import { openAiFields } from "../../author/openai.ts";
import { arrayTypes, type DType } from "../../author/tensor.ts";
import { limitFaults } from "../../base/schemas/fault-limit.ts";
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

/** Content of the file `oci-layout`, which marks a folder as an OCI image layout. */
export const ociLayout = '{"imageLayoutVersion":"1.0.0"}\n';

const layerMediaTypes = [
  mediaTypes.bundle,
  mediaTypes.weights,
  mediaTypes.operators,
  mediaTypes.asset,
  mediaTypes.golden,
] as const;
export type LayerMediaType = (typeof layerMediaTypes)[number];

/**
 * Title of the layer with outputs that the build computed for the model's example. At start, a server compares its own
 * outputs with them.
 */
export const goldenTitle = "example.golden";

/**
 * Whether only processes that run the model need the layer. A process that only answers HTTP (`--role front`) needs no
 * weights, operators or example outputs.
 */
export function isForWorkers({ mediaType }: { readonly mediaType: LayerMediaType }): boolean {
  return mediaType !== mediaTypes.bundle && mediaType !== mediaTypes.asset;
}

export const annotations = {
  title: "org.opencontainers.image.title",
  refName: "org.opencontainers.image.ref.name",
  created: "org.opencontainers.image.created",
  /** In index.json only: the repository (`host/repository`) from which the model was pulled. */
  source: "vnd.sconce.source",
} as const;

/** Version of the interface between a model's bundled code and sconce. Models of another version are refused. */
export const sconceApi = 1;

const digestSchema = z.string().refine(isDigest, 'expected "sha256:" and 64 hex digits');
const sizeSchema = z.int().nonnegative();

/** A layer's title is a relative path that stays inside its folder. A registry may send any string. */
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
 * A tensor of one input or output, without the batch dimension. Lists of tensors have the order of the arguments or
 * results of `forward`.
 */
const namedTensorSchema = z.object({
  name: z.string().min(1),
  dtype: z.enum(dtypes),
  dims: z.array(dimSchema),
});
const jsonSchemaSchema = z.record(z.string(), z.unknown());

/**
 * Content of the config blob: everything about a model that is known without running its code. It has no build time or
 * machine name, so that equal models get equal tags.
 */
export const modelConfigSchema = z.object({
  sconceApi: z.literal(sconceApi),
  name: z.string().min(1),
  description: z.string().optional(),
  inputSchema: jsonSchemaSchema,
  outputSchema: jsonSchemaSchema,
  /** Schema of one piece of an output; only for a model that sends an output in pieces. */
  partSchema: jsonSchemaSchema.optional(),
  demoOutputSchema: jsonSchemaSchema.optional(),
  paramsSchema: jsonSchemaSchema.optional(),
  inputs: z.array(namedTensorSchema),
  outputs: z.array(namedTensorSchema),
  batchSize: z.int().positive(),
  torchVersion: z.string(),
  device: z.string().optional(),
  /**
   * Processor for which weights were compiled: architecture, then features by their names in /proc/cpuinfo, e.g.
   * `x86_64 avx2 f16c fma`.
   */
  cpuCapability: z.string().optional(),
  example: z.unknown().optional(),
  /** More example inputs, which the model's web page offers. */
  examples: z.array(z.unknown()).optional(),
  /** Names of the input and output fields that the OpenAI-compatible routes use. */
  openai: openAiFields.optional(),
});
export type ModelConfig = z.infer<typeof modelConfigSchema>;

/** Largest number of validation errors that are reported: a malicious document can contain an error every two bytes. */
const maxFaults = 3;
for (const schema of [manifestSchema, modelConfigSchema]) limitFaults(schema, maxFaults);

/** The first validation errors of a document, as one line. */
export function faultsOf({ issues }: z.ZodError): string {
  return z.prettifyError(new z.ZodError(issues.slice(0, maxFaults))).replaceAll("\n", " ");
}

/** Whether the path is relative, normalised, and stays inside its folder. */
export function staysInside(title: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  if (/[\\\u0000-\u001f\u007f]/.test(title)) return false;
  return title.split("/").every((part) => part !== "" && part !== "." && part !== "..");
}
