/** Adds the routes of OpenAI's API, the Open Inference Protocol (v2) and MCP. Each subfolder translates the requests of one API to predictions. */
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { ApiName, ServeConfig } from "../../config.ts";
import type { Metrics } from "../../metrics/metrics.ts";
import type { Predictions } from "../../predictions/predictions.ts";
import type { ServedModel } from "../app.ts";
import type { Problem } from "../problem.ts";
import type { Lifecycle } from "../routes/health.ts";
import { addMcp } from "./mcp/mcp.ts";
import { addOpenai, isOpenaiPath } from "./openai/openai.ts";
import { addV2 } from "./v2/v2.ts";
import { type WaitedOptions, WaitedPredictions } from "./waited-predictions.ts";

export interface NamedModel<P = WaitedPredictions> {
  readonly model: ServedModel;
  readonly predictions: P;
  readonly metrics: Metrics;
}

/** A model that could not be opened. Requests that name it get the error `refusal`. */
export interface BrokenModel {
  readonly model: Pick<ServedModel, "name" | "tag" | "digest">;
  readonly refusal: Error;
}

export interface ApiOptions {
  readonly model: ServedModel;
  /** The models that a request may name: only `model` if the path names a model. */
  readonly named: readonly (NamedModel | BrokenModel)[];
  readonly version: string;
  readonly lifecycle: Lifecycle;
  /** Whether a client has unloaded the model. Default: false. */
  readonly isUnloadedByClient?: (() => boolean) | undefined;
  readonly predictions: WaitedPredictions;
  readonly metrics: Metrics;
  readonly config: ServeConfig;
  /**
   * Counts and logs an error.
   * @returns its problem details
   */
  readonly refused: (c: Context, error: unknown) => Problem;
}

/** Answers errors at the paths of one API in the format of the API, even if a check refuses the request before its route runs. */
export interface ErrorForm {
  readonly hasPath: (path: string) => boolean;
  readonly answer: (c: Context, problem: Problem, error: unknown) => Response;
}

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
