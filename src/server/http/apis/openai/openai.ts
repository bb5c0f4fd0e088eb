/** OpenAI's API for models with embeddings, and its neighbours: Cohere's for reranking, vLLM's for classification. */
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import { vectorSize } from "../../../../author/openai.ts";
import type { ApiOptions, ErrorForm } from "../apis.ts";
import { checkModel } from "./asked.ts";
import { classify } from "./classify.ts";
import { embeddings } from "./embeddings.ts";
import { errorResponse, RequestFault } from "./errors.ts";
import { rerank } from "./rerank.ts";

/** Fields that a model needs for each path. */
const needs = {
  embeddings: "exactly one text in its input and exactly one list of numbers in its output",
  rerank: "exactly two texts in its input and exactly one number in its output",
  classify: "exactly one text in its input, and labels with scores in its output",
} as const;

export function addOpenai(app: OpenAPIHono, { model, predictions }: ApiOptions): ErrorForm {
  const { openai } = model;
  const options = { model, predictions };
  const described = { id: model.name, object: "model", created: model.createdS, owned_by: "sconce" };
  const lacking = (use: keyof typeof needs) => () => {
    throw new RequestFault(
      `the model ${model.name} cannot answer this: it needs ${needs[use]}, or openai: { ${use}: … } in defineModel`,
      { status: 404, code: "unsupported_model" },
    );
  };
  const post = <F>(path: string, use: keyof typeof needs, fields: F | undefined, answer: Answer<F>) => {
    app.post(path, fields === undefined ? lacking(use) : (c) => answer(c, fields));
    app.all(path, (c) => otherMethod(c, "POST"));
  };
  post("/v1/embeddings", "embeddings", openai.embeddings, (c, fields) =>
    embeddings(c, { ...options, fields, size: vectorSize(model, fields.output) }),
  );
  for (const version of ["1", "2"] as const) {
    post(`/v${version}/rerank`, "rerank", openai.rerank, (c, fields) => rerank(c, { ...options, fields, version }));
  }
  post("/classify", "classify", openai.classify, (c, fields) => classify(c, { ...options, fields }));
  app.get("/v1/models", (c) => c.json({ object: "list", data: [described] }));
  app.all("/v1/models", (c) => otherMethod(c, "HEAD, GET"));
  // Names of models have slashes.
  app.get("/v1/models/:id{.+}", (c) => {
    checkModel(c.req.param("id"), model);
    return c.json(described);
  });
  app.all("/v1/*", (c) => {
    throw new RequestFault(`there is no ${c.req.method} ${c.req.path}`, { status: 404, code: "unknown_url" });
  });
  const hasPath = (path: string) => path.startsWith("/v1/") || path === "/v2/rerank" || path === "/classify";
  return { hasPath, answer: errorResponse };
}

type Answer<F> = (c: Context, fields: F) => Promise<Response>;

function otherMethod({ req: { path, method } }: Context, allow: string): never {
  const detail = `${path} takes ${allow}, not ${method}`;
  throw new RequestFault(detail, { status: 405, code: "method_not_allowed", headers: { Allow: allow } });
}
