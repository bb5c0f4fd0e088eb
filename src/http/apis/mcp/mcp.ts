/** Adds the route /mcp of the Model Context Protocol. The model is a tool. */
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import { SconceError } from "../../../base/errors.ts";
import { isObject } from "../../../base/json.ts";
import { MAX_COST } from "../../../pipeline/inputs/json-size.ts";
import { inTurn } from "../../../pipeline/inputs/loop-turns.ts";
import { type Problem, problemStatus } from "../../problem.ts";
import type { ApiOptions, ErrorForm } from "../api.ts";
import { parseMessage } from "../waited-predictions.ts";
import type { Endpoint } from "./endpoint.ts";
import { ModelTool } from "./model-tool.ts";
import { rpcError } from "./rpc-error.ts";

/** Most values of a message: the protocol's package checks each message again, which doubles its time. */
const MAX_MESSAGE_COST = MAX_COST / 4;

export function addMcp(app: OpenAPIHono, options: ApiOptions): ErrorForm {
  const { predictions, refused } = options;
  const tool = new ModelTool(options.model);
  let opening: Promise<Endpoint> | undefined;
  app.post("/mcp", async (c) => {
    const { raw } = c.req;
    const { body, charge } = await predictions.readMessage(raw);
    // The message stays in memory until it is answered. The prediction counts the memory of its inputs.
    using _ = charge;
    const message = await parseMessage(body, charge, messageOf, MAX_MESSAGE_COST);
    // Loads the protocol's package at the first request: it takes memory that servers without MCP clients should not spend.
    opening ??= import("./endpoint.ts").then(({ Endpoint }) => new Endpoint(tool, options));
    return await (await opening).answer(raw, message, {
      run: async (args) => predictions.runText(c, await inTurn(() => `[${tool.inputOf(args)}]`)),
      refused: (error) => refused(c, error),
    });
  });
  return { hasPath: (path) => path === "/mcp", answer: errorAnswer };
}

function errorAnswer(_: Context, problem: Problem): Response {
  const status = problemStatus(problem);
  const headers = new Headers(problem.headers);
  return Response.json({ jsonrpc: "2.0", id: null, error: rpcError(problem) }, { status, headers });
}

function messageOf(value: unknown): Readonly<Record<string, unknown>> {
  // A list of messages (a batch) is invalid since the protocol's revision 2025-06-18.
  if (!isObject(value)) throw new SconceError("body_invalid", "expected one JSON-RPC message");
  return value;
}
