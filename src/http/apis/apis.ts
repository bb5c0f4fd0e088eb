/** Adds the routes of OpenAI's API, the Open Inference Protocol (v2) and MCP. Each subfolder translates the requests of one API to predictions. */
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { Predictions } from "../../predictions/predictions.ts";
import type { ApiName } from "../options.ts";
import type { Problem } from "../problem.ts";
import type { ApiOptions, BrokenModel, ErrorForm, NamedModel } from "./api.ts";
import { addMcp } from "./mcp/mcp.ts";
import { addOpenai, isOpenaiPath } from "./openai/openai.ts";
import { addV2 } from "./v2/v2.ts";
import { type WaitedOptions, WaitedPredictions } from "./waited-predictions.ts";

/** Adds the routes of one API. @returns the format of its error answers */
type AddApi = (app: OpenAPIHono, options: ApiOptions) => ErrorForm;

/** Whether a request to this path may name a model in its body. */
export function takesModelNames(path: string): boolean {
  return isOpenaiPath(path);
}

/** The APIs in the order in which their routes are added: `/v2/*` of the API v2 would hide Cohere's `/v2/rerank`, so `v2` follows `openai`. */
const apis: Readonly<Record<Exclude<ApiName, "page" | "docs">, AddApi>> = { openai: addOpenai, v2: addV2, mcp: addMcp };

/**
 * Adds the routes of the named APIs.
 * @returns a function that answers an error in the format of the API that has the request's path; the function returns undefined for other paths
 */
export function addApis(
  app: OpenAPIHono,
  names: readonly ApiName[],
  {
    predictions,
    memory,
    uploads,
    onHold,
    peerOf,
    named,
    ...options
  }: Omit<ApiOptions, "predictions" | "named"> &
    WaitedOptions & { readonly named?: readonly (NamedModel<Predictions> | BrokenModel)[] | undefined },
): (c: Context, problem: Problem, error: unknown) => Response | undefined {
  const shared = { memory, uploads, config: options.config, onHold, peerOf };
  const waited = new WaitedPredictions({ ...shared, predictions });
  const all = named?.map((each) =>
    "refusal" in each
      ? each
      : { ...each, predictions: new WaitedPredictions({ ...shared, predictions: each.predictions }) },
  ) ?? [{ ...options, predictions: waited }];
  const forms = Object.entries(apis)
    .filter(([name]) => names.some((each) => each === name))
    .map(([, add]) => add(app, { ...options, predictions: waited, named: all }));
  return (c, problem, error) => forms.find(({ hasPath }) => hasPath(c.req.path))?.answer(c, problem, error);
}
