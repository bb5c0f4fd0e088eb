/** Adds the route /mcp of the Model Context Protocol. The model is a tool. The protocol's official package answers the messages. */
import type { Hono } from "hono";
import { SconceError } from "../../../base/errors.ts";
import { isObject } from "../../../base/json.ts";
import { inTurn } from "../../../base/loop-turns.ts";
import { type Problem, problemStatus } from "../../problem.ts";
import { modelOf, perModel } from "../../request.ts";
import type { ApiOptions, Translator } from "../api.ts";
import { readMessage } from "../message.ts";
import { runInputs } from "../waited-predictions.ts";
import { ModelTool } from "./model-tool.ts";

const [PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, INTERNAL_ERROR] = [-32700, -32600, -32602, -32603];
/** The code of errors after which the same request may succeed later. JSON-RPC leaves the range of this code to servers. */
const TRY_LATER = -32000;

export const mcp: Translator = {
  addRoutes,
  hasPath: (path) => path === "/mcp",
  statusOf: (status) => status,
  bodyOf: (problem) => ({ jsonrpc: "2.0", id: null, error: rpcError(problem) }),
};

function addRoutes(app: Hono, options: ApiOptions): void {
  const { refused, version } = options;
  const toolOf = perModel((model) => new ModelTool(model));
  app.post("/mcp", async (c) => {
    const { raw } = c.req;
    const { value, bytes, charge } = await readMessage(raw, options, messageOf);
    using _ = charge;
    const tool = toolOf(c);
    const { name, title = name } = tool.declaration;
    // Loads the protocol's package at the first request: it takes memory that servers without MCP clients should not spend.
    const { createMcpHandler, ProtocolError, Server } = await import("@modelcontextprotocol/server");

    const call = async (args: unknown) => {
      try {
        const inputs = await inTurn(() => `[${tool.inputOf(args)}]`);
        return tool.result(await runInputs(c, modelOf(c), { inputs, bytes, charge }));
      } catch (error) {
        const problem = refused(c, error);
        if (problemStatus(problem) === 422) return tool.refusal(problem);
        const { code, message, data } = rpcError(problem);
        throw new ProtocolError(code, message, data);
      }
    };

    // The server of the protocol lives for this request, because sconce has no sessions.
    const serverOfRequest = () => {
      const server = new Server({ name: "sconce", title, version }, { capabilities: { tools: {} } });
      server.setRequestHandler("tools/list", () => ({ tools: [tool.declaration] }));
      server.setRequestHandler("tools/call", async ({ params }) => {
        if (params.name === name) return server.projectCallToolResult(await call(params.arguments), tool.outputSchema);
        const expected = `there is no tool ${JSON.stringify(params.name)}; the tool is ${JSON.stringify(name)}`;
        throw new ProtocolError(INVALID_PARAMS, expected);
      });
      return server;
    };
    return createMcpHandler(serverOfRequest).fetch(raw, { parsedBody: value });
  });
}

/** Converts problem details to a JSON-RPC error. */
function rpcError(problem: Problem) {
  const { detail: message, code } = problem;
  const seconds = problem.headers?.["Retry-After"];
  const data = { code, ...(seconds === undefined ? {} : { retryAfter: Number(seconds) }) };
  return { code: rpcCode(problem), message, data };
}

function rpcCode(problem: Problem): number {
  const status = problemStatus(problem);
  if (status === 429 || status === 503) return TRY_LATER;
  if (status >= 500) return INTERNAL_ERROR;
  return problem.code === "not_json" ? PARSE_ERROR : INVALID_REQUEST;
}

function messageOf(value: unknown): Readonly<Record<string, unknown>> {
  // A list of messages (a batch) is invalid since the protocol's revision 2025-06-18.
  if (!isObject(value)) throw new SconceError("body_invalid", "expected one JSON-RPC message");
  return value;
}
