/** Adds the routes of OpenAI's API for embeddings, of Cohere's API for reranking, and of vLLM's API for classification. */
import type { OpenAPIHono, z } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { OpenAi } from "../../../author/openai.ts";
import { contextOf } from "../../request.ts";
import type { ServedModel } from "../../served-model.ts";
import type { ApiOptions, BrokenModel, ErrorForm, NamedModel } from "../api.ts";
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

export function addOpenai(app: OpenAPIHono, { model: own, predictions, named }: ApiOptions): ErrorForm {
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
      const isAlone = named.length === 1;
      if (isAlone && own.openai[use] === undefined) throw lacking(use, own);
      // With several models, the body names the model and thus the queue. readMessage() therefore checks no queue before it reads the body.
      const read = await readRequest(() =>
        isAlone ? predictions.read(c, { isMessage: true }) : predictions.readMessage(c.req.raw),
      );
      using _ = read.charge;
      const { model, predictions: asked, metrics } = modelNamed(read.given.model, named);
      const fields = model.openai[use];
      if (fields === undefined) throw lacking(use, model);
      if (!isAlone) contextOf(c).metrics = metrics;
      const schema = schemas.get(model) ?? schemaOf(model);
      schemas.set(model, schema);
      return await answer(c, fields, {
        model,
        predictions: asked,
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
  app.get("/v1/models", (c) =>
    c.json({ object: "list", data: usable(named).map(({ model }) => describedModel(model)) }),
  );
  // The pattern `.+` also matches slashes, which names of models contain.
  app.get("/v1/models/:id{.+}", (c) => c.json(describedModel(modelNamed(c.req.param("id"), named).model)));
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

function usable(named: readonly (NamedModel | BrokenModel)[]): NamedModel[] {
  return named.flatMap((each) => ("refusal" in each ? [] : each));
}

function describedModel({ name, createdS }: ServedModel) {
  return { id: name, object: "model", created: createdS, owned_by: "sconce" };
}
