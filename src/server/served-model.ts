/** What clients see of a model in a front. */
import { decodings, STUCK_MS } from "../author/decoding-gate.ts";
import { foundFields, type OpenAi } from "../author/openai.ts";
import { shortened } from "../http/openapi/short-example.ts";
import type { ProblemError } from "../http/problem.ts";
import type { Outage } from "../http/routes/health.ts";
import { workerRefusal } from "../http/routes/models.ts";
import type { ServedModel } from "../http/served-model.ts";
import { generatedTag } from "../package/store/reference.ts";
import type { FrontModel } from "./front-model.ts";
import { maxInputsOf } from "./front-service.ts";

/** Why the model's readiness check must fail now; undefined if nothing is broken. */
export function outageOf({ parts, served }: FrontModel): Outage | undefined {
  if (served.isBroken) return "engine";
  if (served.record.isSilent) return "silent";
  if (parts.store.outage !== undefined) return parts.store.outage;
  return decodings.stuckForMs < STUCK_MS ? undefined : "pictures";
}

/** The model for requests. With --role worker, all requests for a model are refused. */
export async function servedModel(front: FrontModel): Promise<ServedModel | ProblemError> {
  const { predictions } = front;
  if (predictions === undefined) return workerRefusal;
  const { packaged, model, decoder } = front.build;
  const { served } = front;
  const { inputSchema, outputSchema, partSchema, demoOutputSchema = outputSchema } = packaged.config;
  const { example, examples = [] } = packaged.config;
  return {
    name: served.name,
    // The tag of this build, because `latest` may soon mean another build.
    tag: generatedTag(packaged.digest),
    digest: packaged.digest,
    description: model.description,
    createdS: Math.floor((packaged.created?.getTime() ?? 0) / 1000),
    openai: openAiOf(front),
    get batchSize() {
      return batchSizeOf(front);
    },
    maxInputs: maxInputsOf(model, served.config).prediction,
    inputSchema,
    outputSchema,
    partSchema,
    demoOutputSchema,
    shortExample: await shortened(example ?? examples[0]),
    examples: [example, ...examples].filter((each) => each !== undefined),
    predictions,
    metrics: front.parts.metrics,
    decoder,
    isLoading: () => served.state !== "ready",
    isUnloadedByClient: () => served.isUnloadedByClient,
  };
}

/** The fields that OpenAI's API uses: declared by the model, or else guessed from its schemas. */
function openAiOf({ build: { model, hooks, packaged } }: FrontModel): OpenAi {
  const { openai = foundFields(packaged.config) } = model;
  const { embeddings } = openai;
  const tokens = embeddings?.tokens;
  if (embeddings === undefined || typeof tokens !== "function") return openai;
  const counted = (text: string) => {
    hooks.ran("tokens");
    return tokens(text, model.context);
  };
  return { ...openai, embeddings: { ...embeddings, tokens: counted } };
}

/** The current batch size: the engine lowers the configured one if the device has too little memory. */
export function batchSizeOf({ build: { running, model }, served }: FrontModel): number {
  return running?.engine.maxBatchSize ?? served.config.batchSize ?? model.settings.batchSize ?? 1;
}
