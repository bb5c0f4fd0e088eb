/** A row of the table of routes, which registers the handlers and makes the OpenAPI document. */
import type { Context, Hono } from "hono";
import type { Facts, Operation } from "./openapi/operation.ts";
import type { RequestContext } from "./request.ts";

export interface Route {
  readonly method: "get" | "post" | "put";
  /** The path with its parameters as OpenAPI writes them, such as `/demo/{demo_id}`. Hono matches `/demo/:demo_id`. */
  readonly path: string;
  readonly answer: (c: Context) => Response | Promise<Response>;
  /**
   * Answers a request whose path equals `path`, without the router: Hono's context and promises cost a small prediction
   * about a tenth of its time.
   */
  readonly direct?: (context: RequestContext) => Response | Promise<Response>;
  /** Describes the route for the document of a model. The document leaves out a route without a description. */
  readonly describe?: (facts: Facts) => Operation;
}

export function addRoutes(app: Hono, routes: readonly Route[]): void {
  for (const { method, path, answer } of routes) app[method](path.replaceAll(/\{(\w+)\}/g, ":$1"), answer);
}
