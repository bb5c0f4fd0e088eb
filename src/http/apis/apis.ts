/** Adds the routes of OpenAI's API, the Open Inference Protocol (v2) and MCP. Each subfolder translates the requests of one API to predictions. */
import type { Context, Hono } from "hono";
import type { ApiName } from "../options.ts";
import { type Problem, problemStatus } from "../problem.ts";
import { contextOf } from "../request.ts";
import type { ApiOptions, Translator } from "./api.ts";
import { mcp } from "./mcp/mcp.ts";
import { openai } from "./openai/openai.ts";
import { v2 } from "./v2/v2.ts";

/** The APIs in the order in which their routes are added: `/v2/*` of the API v2 would hide Cohere's `/v2/rerank`, so `v2` follows `openai`. */
const translators: Readonly<Record<Exclude<ApiName, "page" | "docs">, Translator>> = { openai, v2, mcp };

/**
 * Adds the routes of the APIs that the server has.
 * @returns a function that answers an error in the form of the API that has the request's path; the function returns undefined for other paths
 */
export function addApis(
  app: Hono,
  options: ApiOptions,
): (c: Context, problem: Problem, error: unknown) => Response | undefined {
  const added = Object.entries(translators).flatMap(([name, translator]) =>
    options.config.api.some((each) => each === name) ? [translator] : [],
  );
  for (const { addRoutes } of added) addRoutes(app, options);
  return (c, problem, error) => {
    const form = added.find(({ hasPath }) => hasPath(contextOf(c).path));
    if (form === undefined) return undefined;
    const status = form.statusOf(problemStatus(problem));
    // KServe's client parses an error only with exactly this media type.
    const headers = { ...problem.headers, "Content-Type": "application/json" };
    return c.body(JSON.stringify(form.bodyOf(problem, status, error)), status, headers);
  };
}
