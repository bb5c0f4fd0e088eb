/** The APIs of other servers. Each folder beside this file translates the requests of one API to predictions. */
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { ApiName } from "../../config.ts";
import type { Metrics } from "../../metrics/metrics.ts";
import type { Predictions } from "../../predictions/predictions.ts";
import type { ServedModel } from "../app.ts";
import type { Problem } from "../problem.ts";
import type { RequestContext } from "../request.ts";
import type { Lifecycle } from "../routes/health.ts";
import { addMcp } from "./mcp/mcp.ts";
import { addOpenai } from "./openai/openai.ts";
import { addV2 } from "./v2/v2.ts";
import { type WaitedOptions, WaitedPredictions } from "./waited-predictions.ts";

/** A model that requests to the root of a server may name. */
export interface NamedModel<P = WaitedPredictions> {
  readonly model: ServedModel;
  readonly predictions: P;
  readonly metrics: Metrics;
  /** Whether a request gets this version under the name. By default each request does. */
  readonly isFor?: (request: Request, context: RequestContext) => boolean;
}

export interface ApiOptions {
  readonly model: ServedModel;
  /** The models that a request may name: all models at the root of a server, else only this one. */
  readonly named: readonly NamedModel[];
  readonly version: string;
  readonly lifecycle: Lifecycle;
  readonly predictions: WaitedPredictions;
  readonly metrics: Metrics;
  /** Seconds that a finished prediction stays readable. */
  readonly retainAge: number;
  /** Milliseconds after which a call of a tool may become a task. */
  readonly taskAfterMs: number;
  /** Counts and logs an error. @returns its status, code and text for the answer */
  readonly refused: (c: Context, error: unknown) => Problem;
}

/** Formats errors as an API's clients expect them. The server uses it for all requests to the API's paths, even for requests refused before its routes. */
export interface ErrorForm {
  readonly hasPath: (path: string) => boolean;
  readonly answer: (c: Context, problem: Problem, error: unknown) => Response;
}

/** Adds the routes of one API. The routes throw errors; the returned form turns the errors into answers. */
type AddApi = (app: OpenAPIHono, options: ApiOptions) => ErrorForm;

/** The order matters: `/v2/*` of the API v2 would hide Cohere's `/v2/rerank`, so its routes come later. */
const apis: Readonly<Record<ApiName, AddApi>> = { openai: addOpenai, v2: addV2, mcp: addMcp };

/**
 * Adds the routes of the named APIs.
 * @returns a function that makes the answer to an error, in the format of the API with the request's path. For other paths the function returns
 * undefined.
 */
export function addApis(
  app: OpenAPIHono,
  names: readonly ApiName[],
  {
    predictions,
    siblings,
    memory,
    maxBodyBytes,
    onHold,
    peerOf,
    named,
    ...options
  }: Omit<ApiOptions, "predictions" | "named"> &
    WaitedOptions & { readonly named?: readonly NamedModel<Predictions>[] | undefined },
): (c: Context, problem: Problem, error: unknown) => Response | undefined {
  const shared = { siblings, memory, maxBodyBytes, onHold, peerOf };
  const waited = new WaitedPredictions({ ...shared, predictions });
  const all = named?.map((each) => ({
    ...each,
    predictions: new WaitedPredictions({ ...shared, predictions: each.predictions }),
  })) ?? [{ ...options, predictions: waited }];
  const forms = Object.entries(apis)
    .filter(([name]) => names.some((each) => each === name))
    .map(([, add]) => add(app, { ...options, predictions: waited, named: all }));
  return (c, problem, error) => forms.find(({ hasPath }) => hasPath(c.req.path))?.answer(c, problem, error);
}
