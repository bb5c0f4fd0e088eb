/** Adds the routes of OpenAI's API for embeddings, of Cohere's API for reranking, and of vLLM's API for classification. */

import type { Context, Hono } from "hono";
import type { z } from "zod";
import type { OpenAi } from "../../../author/openai.ts";
import { ProblemError } from "../../problem.ts";
import { contextOf } from "../../request.ts";
import { namesFor } from "../../routes/models.ts";
import type { ServedModel, ServedName } from "../../served-model.ts";
import type { ApiOptions, ErrorForm } from "../api.ts";
import { readMessage, WaitedPredictions } from "../waited-predictions.ts";
import { type AskedOptions, modelNamed, readRequest } from "./asked.ts";
import { classify } from "./classify.ts";
import { embeddings } from "./embeddings.ts";
import { errorResponse, RequestFault } from "./errors.ts";
import { checked, classifyRequest, embeddingRequest, rerankRequest } from "./requests.ts";
import { rerank } from "./rerank.ts";

/** The fields that a model needs for each kind of route, as text for error messages. */
const needs = {
  embeddings: "exactly one text in its input and exactly one list of numbers in its output",
  rerank: "exactly two texts in its input and exactly one number in its output",
  classify: "exactly one text in its input, and labels with scores in its output",
} as const;

export function addOpenai(app: Hono, options: ApiOptions): ErrorForm {
  const { names } = options;
  const lacking = (use: keyof typeof needs, { name }: Pick<ServedModel, "name">) =>
    new RequestFault(
      `the model ${name} cannot answer this: it needs ${needs[use]}, or openai: { ${use}: … } in defineModel`,
      { problem: "not_found", code: "unsupported_model" },
    );
  const post = <U extends keyof typeof needs, G>(
    path: string,
    use: U,
    schemaOf: (model: ServedModel) => z.ZodType<G>,
    answer: Answer<NonNullable<OpenAi[U]>, G>,
  ) => {
    const schemas = new WeakMap<ServedModel, z.ZodType<G>>();
    app.post(path, async (c) => {
      // The body names the model and thus the queue. No queue is therefore checked before the body is read.
      const read = await readRequest(() => readMessage(c.req.raw, options));
      using _ = read.charge;
      const model = modelNamed(read.given.model, namesFor(c, names));
      const fields = model.openai[use];
      if (fields === undefined) throw lacking(use, model);
      contextOf(c).metrics = model.metrics;
      const schema = schemas.get(model) ?? schemaOf(model);
      schemas.set(model, schema);
      return await answer(c, fields, {
        model,
        predictions: new WaitedPredictions(options, model),
        read: { ...read, given: checked(schema, read.given) },
      });
    });
  };
  post("/v1/embeddings", "embeddings", embeddingRequest, (c, fields, asked) => embeddings(c, { ...asked, fields }));
  for (const version of ["1", "2"] as const) {
    post(`/v${version}/rerank`, "rerank", rerankRequest, (c, fields, asked) =>
      rerank(c, { ...asked, fields, version }),
    );
  }
  post("/classify", "classify", classifyRequest, (c, fields, asked) => classify(c, { ...asked, fields }));
  app.get("/v1/models", (c) => c.json({ object: "list", data: usable(namesFor(c, names)).map(describedModel) }));
  // The pattern `.+` also matches slashes, which names of models contain.
  app.get("/v1/models/:id{.+}", (c) => c.json(describedModel(modelNamed(c.req.param("id"), namesFor(c, names)))));
  return { hasPath: isOpenaiPath, answer: errorResponse };
}

/** Whether addOpenai() has routes at the path. */
export function isOpenaiPath(path: string): boolean {
  return path.startsWith("/v1/") || path === "/v2/rerank" || path === "/classify";
}

type Answer<F, G> = (
  c: Context,
  fields: F,
  asked: AskedOptions<G> & { readonly model: ServedModel },
) => Promise<Response>;

function usable(names: readonly ServedName[]): ServedModel[] {
  return names.flatMap(({ model }) => (model instanceof ProblemError ? [] : model));
}

function describedModel({ name, createdS }: ServedModel) {
  return { id: name, object: "model", created: createdS, owned_by: "sconce" };
}
