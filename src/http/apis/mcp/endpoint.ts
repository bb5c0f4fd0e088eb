/** Answers messages of the Model Context Protocol (MCP), with the protocol's official package. */
import {
  type CallToolResult,
  createMcpHandler,
  ProtocolError,
  ProtocolErrorCode,
  Server,
} from "@modelcontextprotocol/server";
import type { ModelTool, RpcError } from "./model-tool.ts";

export interface EndpointOptions {
  readonly tool: ModelTool;
  /** Version of the server. */
  readonly version: string;
  /** Runs a prediction, and waits for its end. */
  readonly call: (args: unknown) => Promise<CallToolResult | RpcError>;
}

/** Clients may cache the list of tools for a minute, because the model stays the same while the server runs. */
const cacheHint = { ttlMs: 60_000, cacheScope: "public" } as const;

/** Answers one message. The server of the protocol lives for this request, because the server has no sessions. */
export function answerMessage(request: Request, message: unknown, options: EndpointOptions): Promise<Response> {
  return createMcpHandler(() => serverFor(options)).fetch(request, { parsedBody: message });
}

function serverFor({ tool, version, call }: EndpointOptions): Server {
  const { declaration, outputSchema } = tool;
  const server = new Server(
    { name: "sconce", title: declaration.title ?? declaration.name, version },
    { capabilities: { tools: {} }, cacheHints: { "tools/list": cacheHint, "server/discover": cacheHint } },
  );
  server.setRequestHandler("tools/list", () => ({ tools: [declaration] }));
  server.setRequestHandler("tools/call", async ({ params: { name, arguments: args } }) => {
    if (name !== declaration.name) {
      const expected = `there is no tool ${JSON.stringify(name)}; the tool is ${JSON.stringify(declaration.name)}`;
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, expected);
    }
    const answer = await call(args);
    if (isError(answer)) throw new ProtocolError(answer.code, answer.message, answer.data);
    return server.projectCallToolResult(answer, outputSchema);
  });
  return server;
}

function isError(answer: CallToolResult | RpcError): answer is RpcError {
  return !("content" in answer);
}
