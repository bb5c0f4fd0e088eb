/** Adds the route /mcp of the Model Context Protocol. The model is a tool. */
import type { Context, Hono } from "hono";
import { SconceError } from "../../../base/errors.ts";
import { isObject } from "../../../base/json.ts";
import { MAX_COST } from "../../../pipeline/inputs/json-size.ts";
import { inTurn } from "../../../pipeline/inputs/loop-turns.ts";
import { type Problem, problemStatus } from "../../problem.ts";
import { modelOf, perModel } from "../../request.ts";
import type { ApiOptions, ErrorForm } from "../api.ts";
import { parseMessage, readMessage, WaitedPredictions } from "../waited-predictions.ts";
import { ModelTool } from "./model-tool.ts";
import { rpcError } from "./rpc-error.ts";

/** Most values of a message: the protocol's package checks each message again, which doubles its time. */
const MAX_MESSAGE_COST = MAX_COST / 4;

export function addMcp(app: Hono, options: ApiOptions): ErrorForm {
  const { refused, version } = options;
  // Loads the protocol's package at the first request: it takes memory that servers without MCP clients should not spend.
  const endpointOf = perModel(async (model) => {
    const { Endpoint } = await import("./endpoint.ts");
    const tool = new ModelTool(model);
    return { tool, endpoint: new Endpoint(tool, { model, version }) };
  });
  app.post("/mcp", async (c) => {
    const { raw } = c.req;
    const { body, charge } = await readMessage(raw, options);
    // The message stays in memory until it is answered. The prediction counts the memory of its inputs.
    using _ = charge;
    const message = await parseMessage(body, charge, messageOf, MAX_MESSAGE_COST);
    const { tool, endpoint } = await endpointOf(c);
    const predictions = new WaitedPredictions(options, modelOf(c));
    return await endpoint.answer(raw, message, {
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
