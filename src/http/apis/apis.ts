/** Adds the routes of OpenAI's API, the Open Inference Protocol (v2) and MCP. Each subfolder translates the requests of one API to predictions. */
import type { Context, Hono } from "hono";
import type { ApiName } from "../options.ts";
import type { Problem } from "../problem.ts";
import { contextOf } from "../request.ts";
import type { ApiOptions, ErrorForm } from "./api.ts";
import { addMcp } from "./mcp/mcp.ts";
import { addOpenai } from "./openai/openai.ts";
import { addV2 } from "./v2/v2.ts";

/** Adds the routes of one API. @returns the format of its error answers */
type AddApi = (app: Hono, options: ApiOptions) => ErrorForm;

/** The APIs in the order in which their routes are added: `/v2/*` of the API v2 would hide Cohere's `/v2/rerank`, so `v2` follows `openai`. */
const apis: Readonly<Record<Exclude<ApiName, "page" | "docs">, AddApi>> = { openai: addOpenai, v2: addV2, mcp: addMcp };

/**
 * Adds the routes of the APIs that the server has.
 * @returns a function that answers an error in the format of the API that has the request's path; the function returns undefined for other paths
 */
export function addApis(
  app: Hono,
  options: ApiOptions,
): (c: Context, problem: Problem, error: unknown) => Response | undefined {
  const forms = Object.entries(apis)
    .filter(([name]) => options.config.api.some((each) => each === name))
    .map(([, add]) => add(app, options));
  return (c, problem, error) => forms.find(({ hasPath }) => hasPath(contextOf(c).path))?.answer(c, problem, error);
}
