/** Adds the routes of OpenAI's API for embeddings, of Cohere's API for reranking, and of vLLM's API for classification. */
import type { Context, Hono } from "hono";
import type { OpenAi } from "../../../author/openai.ts";
import { type Fault, hasCode, SconceError } from "../../../base/errors.ts";
import { ProblemError } from "../../problem.ts";
import { contextOf } from "../../request.ts";
import { namesFor } from "../../routes/models.ts";
import type { ServedModel, ServedName } from "../../served-model.ts";
import type { ApiOptions, Translator } from "../api.ts";
import { checked, readMessage } from "../message.ts";
import { type Failed, runInputs } from "../waited-predictions.ts";
import { anyRequest, memberFault, RequestFault } from "./requests.ts";
import { classify, embeddings, rerank, type Translation, type Use } from "./translations.ts";

/** Errors in OpenAI's form. A RequestFault also names the member of the request that is wrong. */
export const openai: Translator = {
  addRoutes,
  hasPath: (path) => path.startsWith("/v1/") || path === "/v2/rerank" || path === "/classify",
  // OpenAI's clients do not know the status 422.
  statusOf: (status) => (status === 422 ? 400 : status),
  bodyOf(problem, status, error) {
    const { param, code } = error instanceof RequestFault ? error : { param: null, code: problem.code };
    const type = status === 429 ? "rate_limit_error" : status < 500 ? "invalid_request_error" : "server_error";
    return { error: { message: problem.detail, type, param, code } };
  },
};

function addRoutes(app: Hono, options: ApiOptions): void {
  const { names } = options;
  const post = <U extends Use, R>(path: string, use: U, translation: Translation<R, NonNullable<OpenAi[U]>>) =>
    app.post(path, async (c) => {
      // The body names the model and thus the queue. No queue is therefore checked before the body is read.
      const { value, bytes, charge } = await readMessage(c.req.raw, options, (value) => ({
        members: checked(anyRequest, value, memberFault),
        request: value,
      }));
      using _ = charge;
      const model = modelNamed(value.members.model ?? undefined, namesFor(c, names));
      contextOf(c).metrics = model.metrics;
      const fields = model.openai[use];
      if (fields === undefined) throw lacking(model, use);
      const asked = { request: checked(translation.schema, value.request, memberFault), fields, model };
      const inputs = JSON.stringify(translation.inputs(asked));
      const ended = await runInputs(c, model, { inputs, bytes, charge }).catch((error: unknown) => {
        throw faultOfInputs(error, translation.param);
      });
      if (!ended.ok) return failed(c, ended);
      return c.body(await translation.answer(asked, ended), 200, { "Content-Type": "application/json" });
    });
  post("/v1/embeddings", "embeddings", embeddings);
  for (const version of ["1", "2"]) post(`/v${version}/rerank`, "rerank", rerank(version));
  post("/classify", "classify", classify);
  app.get("/v1/models", (c) => {
    const usable = namesFor(c, names).flatMap(({ model }) => (model instanceof ProblemError ? [] : model));
    return c.json({ object: "list", data: usable.map(describedModel) });
  });
  // The pattern `.+` also matches slashes, which names of models contain.
  app.get("/v1/models/:id{.+}", (c) => c.json(describedModel(modelNamed(c.req.param("id"), namesFor(c, names)))));
}

/** The answer for a failed prediction. OpenAI's clients retry requests after a 500, unless the header `X-Should-Retry` forbids it. */
function failed(c: Context, { message }: Failed): Response {
  const error = { message, type: "server_error", param: null, code: "prediction_failed" };
  return c.json({ error }, 500, { "X-Should-Retry": "false" });
}

/** For inputs that the model's schema refuses, the error that names them in the request; else the error itself. */
function faultOfInputs(error: unknown, param: string): unknown {
  if (!(error instanceof SconceError && hasCode(error, "inputs_invalid"))) return error;
  const faults: readonly Fault[] = error.faults ?? [{ pointer: "", detail: error.message }];
  const lines = faults.slice(0, 3).map(({ pointer, detail }) => {
    const [, index] = pointer.split("/");
    return `${index === undefined ? param : `${param}[${index}]`}: ${detail}`;
  });
  return new RequestFault(lines.join("; "), { param });
}

/**
 * Finds the model that a request names; the first model if the request names none.
 * @throws RequestFault 404 if no model has the name; ProblemError 503 for a broken model
 */
function modelNamed(asked: string | undefined, all: readonly ServedName[]): ServedModel {
  const found = all.find(
    ({ name, tag, digest }) => asked === undefined || [name, `${name}:${tag}`, `${name}@${digest}`].includes(asked),
  );
  if (found?.model instanceof ProblemError) throw found.model;
  if (found !== undefined) return found.model;
  const names = all.map(({ name }) => `"${name}"`).join(", ");
  const detail = `there is no model ${JSON.stringify(asked)}; this server has ${names} (GET /v1/models)`;
  throw new RequestFault(detail, { problem: "not_found", param: "model", code: "model_not_found" });
}

function lacking({ name }: ServedModel, use: Use): RequestFault {
  const detail = `the model ${name} cannot answer this: its author can declare openai: { ${use}: … } in defineModel`;
  return new RequestFault(detail, { problem: "not_found", code: "unsupported_model" });
}

function describedModel({ name, createdS }: ServedModel) {
  return { id: name, object: "model", created: createdS, owned_by: "sconce" };
}
