/** Creates the HTTP app of a model, with the facts that it reports about the model. */
import { version } from "../../package.json";
import { decodings, STUCK_MS } from "../author/decoding-gate.ts";
import { foundFields, type OpenAi } from "../author/openai.ts";
import { log } from "../base/log.ts";
import { logLimit } from "../base/log-limit.ts";
import type { BrokenModel, NamedModel } from "../http/apis/api.ts";
import { createApp } from "../http/app.ts";
import type { Fetch } from "../http/listener.ts";
import { shortened } from "../http/openapi/short-example.ts";
import type { Hindrance, Lifecycle } from "../http/routes/health.ts";
import { createBrokenApp, workerRefusal } from "../http/routes/models.ts";
import type { ServedModel } from "../http/served-model.ts";
import { generatedTag } from "../package/store/reference.ts";
import type { Predictions } from "../predictions/predictions.ts";
import type { FrontModel } from "./front-model.ts";
import { maxInputsOf } from "./front-service.ts";
import type { Metrics } from "./metrics/metrics.ts";

interface ModelAppOptions {
  readonly served: ServedModel;
  /** URL path of the model, before the paths of its routes. */
  readonly basePath: string;
  readonly allMetrics: Pick<Metrics, "text">;
  /** State of the model; for the app at the root, the state of the server. */
  readonly lifecycle: Lifecycle;
  /** Path to which browsers at the root of the app are redirected. Default: the page of the model. */
  readonly home?: string | undefined;
  /** Names of all models, for the OpenAPI document of a server with several models. */
  readonly modelNames?: readonly string[] | undefined;
  /** The models that requests to this app may name; by default only its own model. */
  readonly named?: readonly (NamedModel<Predictions> | BrokenModel)[] | undefined;
}

/** Creates the app with all routes. With --role worker, the app has only health and metrics. */
export function appOf(
  model: FrontModel,
  { served, basePath, allMetrics, lifecycle, home, named, modelNames }: ModelAppOptions,
): { readonly fetch: Fetch } {
  const { options, parts, shared, build } = model;
  const { metrics, replica } = parts;
  const { memory, uploads, keys, port, siblings } = shared;
  const { control } = shared.options;
  const { config } = options;
  const { predictions } = model;
  if (predictions === undefined) {
    const server = { lifecycle, siblings, control, onHold: port.hold, allMetrics };
    return createBrokenApp({ config, keys, metrics, basePath: config.basePath }, workerRefusal, server);
  }
  return createApp({
    model: served,
    allMetrics,
    ...(home && { home }),
    named,
    modelNames,
    predictions,
    metrics,
    siblings,
    isQueued: replica !== undefined,
    lifecycle,
    isUnloadedByClient: () => options.engine?.isUnloadedByClient === true,
    isLoading: options.engine && (() => options.engine?.state !== "ready"),
    decoder: build.decoder,
    memory,
    uploads,
    version,
    config,
    keys,
    control,
    basePath,
    onInternalError: (error, context) =>
      logLimit.write("internal", (...more) => log.error(error, ...more, context.fields())),
    onHold: port.hold,
    peerOf: port.peerOf,
  });
}

/** Why the model's readiness check must fail now; undefined if nothing is broken. */
export function hindranceOf({ parts, build: { running }, options: { engine } }: FrontModel): Hindrance | undefined {
  const { replica, store } = parts;
  if (engine?.isBroken) return "engine";
  if (running?.engine.isSilent) return "silent";
  if (replica?.isConnected === false) return "queue";
  if (replica?.facts.isFull) return "full";
  if (store.isDetached) return "store";
  if (store.isUnwritable) return "disk";
  return decodings.stuckForMs < STUCK_MS ? undefined : "pictures";
}

export async function servedModel(front: FrontModel): Promise<ServedModel> {
  const { packaged, model } = front.build;
  const { inputSchema, outputSchema, partSchema, demoOutputSchema = outputSchema } = packaged.config;
  const { example, examples = [] } = packaged.config;
  return {
    name: front.options.name,
    // The tag of this build, because `latest` may soon mean another build.
    tag: generatedTag(packaged.digest),
    digest: packaged.digest,
    description: model.description,
    createdS: Math.floor((packaged.created?.getTime() ?? 0) / 1000),
    openai: openAiOf(front),
    get batchSize() {
      return batchSizeOf(front);
    },
    maxInputs: maxInputsOf(model, front.options.config).prediction,
    inputSchema,
    outputSchema,
    partSchema,
    demoOutputSchema,
    shortExample: await shortened(example ?? examples[0]),
    examples: [example, ...examples].filter((each) => each !== undefined),
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
export function batchSizeOf({ build: { running, model }, options }: FrontModel): number {
  return running?.engine.maxBatchSize ?? options.config.batchSize ?? model.settings.batchSize ?? 1;
}
