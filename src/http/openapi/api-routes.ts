/**
 * Describes routes of other servers' APIs in the OpenAPI document: only routes that run predictions, and only if the model has the fields for them.
 */
import { type RouteConfig, z } from "@hono/zod-openapi";
import { isObject } from "../../base/json.ts";
import { classifyRequest, embeddingRequest, rerankRequest } from "../apis/openai/requests.ts";
import { datatypeOf, type ModelTensors, type TensorField, tensorsOf } from "../apis/v2/tensors.ts";
import type { ApiName } from "../options.ts";
import type { ProblemStatus } from "../problem.ts";
import type { ServedModel } from "../served-model.ts";
import { failsWith } from "./answers.ts";
import { answered, modelHeader, traced } from "./headers.ts";

/** The tag and the routes of one API, for the OpenAPI document. */
export interface DescribedApi {
  readonly tag: { readonly name: string; readonly description: string };
  readonly routes: readonly RouteConfig[];
}

type Model = Pick<ServedModel, "name" | "inputSchema" | "outputSchema" | "openai" | "shortExample">;

interface ApiOptions {
  readonly apis: readonly ApiName[];
  readonly hasKeys?: boolean;
}

/** Describes each API that has routes for this model. */
export function describedApis(model: Model, { apis, hasKeys = false }: ApiOptions): readonly DescribedApi[] {
  const described = [
    ...(apis.includes("v2") ? [inferenceProtocol(model, hasKeys)] : []),
    ...(apis.includes("openai") ? [openai(model, hasKeys)] : []),
  ];
  return described.filter(({ routes }) => routes.length > 0);
}

interface Post {
  readonly path: string;
  readonly operationId: string;
  readonly tag: string;
  readonly summary: string;
  readonly description: string;
  readonly request: z.ZodType;
  readonly example: unknown;
  readonly answer: z.ZodType;
  readonly error: z.ZodType;
  /** HTTP statuses of the errors that the route may answer. */
  readonly statuses: readonly ProblemStatus[];
}

const faults = {
  400: "The request does not fit the model, or cannot be read",
  404: "The request names another model",
  429: "The queue is full, or the API key has reached a limit; Retry-After says when to try again",
  500: "The model failed for an input",
  503: "The server is setting up or stopping, or its queue is full",
};

function post({
  path,
  operationId,
  tag,
  summary,
  description,
  request,
  example,
  answer,
  ...answers
}: Post): RouteConfig {
  const { error, statuses } = answers;
  const shown = example === undefined ? {} : { example };
  return {
    method: "post",
    path,
    operationId,
    tags: [tag],
    summary,
    description,
    request: {
      headers: z.object(traced),
      body: { required: true, content: { "application/json": { schema: request, ...shown } } },
    },
    responses: {
      200: {
        description: "The outputs",
        headers: z.object({ ...modelHeader, ...answered }),
        content: { "application/json": { schema: answer } },
      },
      ...failsWith(statuses, error, faults),
    },
  };
}

function inferenceProtocol({ name, inputSchema, outputSchema, shortExample }: Model, hasKeys: boolean): DescribedApi {
  const tag = { name: "Open Inference Protocol", description: "The protocol of KServe and Triton" };
  const inputs = tensorsOf(inputSchema, "input");
  const outputs = tensorsOf(outputSchema, "output");
  const tensor = (description: string) =>
    z.object({
      name: z.string().openapi({ description }),
      datatype: z.string(),
      shape: z.array(z.int()).openapi({ description: "The first size counts the rows, which are the inputs" }),
      data: z.array(z.unknown()).optional().openapi({ description: "The elements, flat; absent for binary data" }),
    });
  const request = z.object({
    id: z.string().nullish(),
    inputs: z.array(tensor(listed(inputs)).openapi("InferenceInput")).min(1),
    outputs: z.array(z.object({ name: z.enum(outputs.fields.map((field) => field.name)) })).nullish(),
  });
  const answer = z.object({
    model_name: z.string(),
    model_version: z.string(),
    id: z.string(),
    outputs: z.array(tensor(listed(outputs)).openapi("InferenceOutput")),
  });
  const route = post({
    path: `/v2/models/${name}/infer`,
    operationId: "infer",
    tag: tag.name,
    summary: "Outputs for rows of tensors",
    description: `Runs one prediction, and waits for its end. \`GET /v2/models/${name}\` has names, datatypes and shapes of the tensors. Binary tensors may follow the JSON.`,
    request: request.openapi("InferenceRequest"),
    example: inferenceExample(inputs, shortExample),
    answer: answer.openapi("InferenceResponse"),
    error: z.object({ error: z.string() }).openapi("InferenceError"),
    statuses: [400, ...(hasKeys ? [401 as const] : []), 403, 408, 413, ...(hasKeys ? [429 as const] : []), 500, 503],
  });
  return { tag, routes: [route] };
}

function listed({ fields }: ModelTensors): string {
  return fields.map((field) => `\`${field.name}\` (${datatypeOf(field)})`).join(", ");
}

/** An example request whose only row is the model's example. Undefined without an example, or if a tensor cannot be written as short JSON. */
function inferenceExample({ fields, isWhole }: ModelTensors, example: unknown): unknown {
  const valueIn = ({ name }: TensorField) => (isWhole || !isObject(example) ? example : example[name]);
  const given = fields.filter((field) => valueIn(field) !== undefined);
  if (example === undefined || given.length === 0) return undefined;
  const inputs = given.map((field) => {
    const value = valueIn(field);
    const { name, values } = field;
    const [sizes, data] =
      values.kind === "numbers" ? elementsOf(value) : [[], [values.kind === "json" ? JSON.stringify(value) : value]];
    return { name, datatype: datatypeOf(field), shape: [1, ...sizes], data };
  });
  const isArray = inputs.every(({ data }, i) => given[i]?.values.kind !== "numbers" || typeof data[0] !== "string");
  return isArray && JSON.stringify(inputs).length <= MAX_EXAMPLE ? { inputs } : undefined;
}

/** Maximum characters of an example request. */
const MAX_EXAMPLE = 8192;

/** Splits nested lists into the sizes of the dimensions and the flat elements. */
function elementsOf(value: unknown): [sizes: number[], elements: unknown[]] {
  if (!Array.isArray(value)) return [[], [value]];
  const parts = value.map(elementsOf);
  return [[value.length, ...(parts[0]?.[0] ?? [])], parts.flatMap(([, elements]) => elements)];
}

const sentences = ["A cat sleeps on the sofa.", "The kitten is asleep."];
const usage = z.object({ prompt_tokens: z.int(), total_tokens: z.int() }).openapi("OpenAiUsage");
const openAiError = z
  .object({
    error: z.object({
      message: z.string(),
      type: z.string(),
      param: z.string().nullable(),
      code: z.string().nullable(),
    }),
  })
  .openapi("OpenAiError");

function openai(served: Model, hasKeys: boolean): DescribedApi {
  const { name, openai } = served;
  const tag = { name: "OpenAI", description: "OpenAI's embeddings, Cohere's reranking, vLLM's classification" };
  const common = {
    tag: tag.name,
    error: openAiError,
    statuses: [400, ...(hasKeys ? [401 as const] : []), 403, 404, 408, 413, 429, 500, 503] as const,
  };
  const routes: RouteConfig[] = [];
  if (openai.embeddings !== undefined) {
    const item = z.object({
      object: z.literal("embedding"),
      index: z.int(),
      embedding: z.union([z.array(z.number()), z.string()]),
    });
    routes.push(
      post({
        ...common,
        path: "/v1/embeddings",
        operationId: "embed",
        summary: "A vector for each text",
        description: "OpenAI's embeddings: one prediction with an input for each text.",
        request: embeddingRequest(served).openapi("EmbeddingRequest"),
        example: { model: name, input: sentences },
        answer: z
          .object({ object: z.literal("list"), data: z.array(item.openapi("EmbeddingItem")), model: z.string(), usage })
          .openapi("EmbeddingResponse"),
      }),
    );
  }
  if (openai.rerank !== undefined) {
    const result = z.object({
      index: z.int(),
      relevance_score: z.number(),
      document: z.object({ text: z.string() }).optional(),
    });
    const version = z.object({ api_version: z.object({ version: z.string() }) });
    for (const number of [1, 2]) {
      routes.push(
        post({
          ...common,
          path: `/v${number}/rerank`,
          operationId: number === 1 ? "rerank" : "rerankV2",
          summary: "Documents by their scores for a query",
          description: "Cohere's reranking: one prediction with an input for each document.",
          request: rerankRequest(served).openapi("RerankRequest"),
          example: { model: name, query: "cat", documents: sentences },
          answer: z
            .object({
              id: z.string(),
              model: z.string(),
              results: z.array(result.openapi("RerankResult")),
              meta: version,
            })
            .openapi("RerankResponse"),
        }),
      );
    }
  }
  if (openai.classify !== undefined) {
    const item = z.object({
      index: z.int(),
      label: z.string(),
      probs: z.array(z.number()),
      labels: z.array(z.string()),
      num_classes: z.int(),
    });
    routes.push(
      post({
        ...common,
        path: "/classify",
        operationId: "classify",
        summary: "The best label for each text, and all scores",
        description: "vLLM's classification: one prediction with an input for each text.",
        request: classifyRequest(served).openapi("ClassifyRequest"),
        example: { model: name, input: sentences },
        answer: z
          .object({
            id: z.string(),
            object: z.literal("list"),
            created: z.int(),
            model: z.string(),
            data: z.array(item.openapi("Classification")),
            usage,
          })
          .openapi("ClassifyResponse"),
      }),
    );
  }
  return { tag, routes };
}
