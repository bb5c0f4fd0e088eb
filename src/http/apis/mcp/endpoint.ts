/** Answers messages of the Model Context Protocol (MCP), with the protocol's official package. */
import {
  createMcpHandler,
  type McpHttpHandler,
  type McpRequestContext,
  ProtocolError,
  ProtocolErrorCode,
  Server,
} from "@modelcontextprotocol/server";
import { type Problem, problemStatus } from "../../problem.ts";
import type { ServedModel } from "../../served-model.ts";
import type { Ended } from "../waited-predictions.ts";
import type { ModelTool } from "./model-tool.ts";
import { rpcError } from "./rpc-error.ts";

/** Runs predictions for one MCP request. */
export interface Call {
  /** Runs a prediction, and waits for its end. */
  run(args: unknown): Promise<Ended>;
  /**
   * Counts and logs an error.
   * @returns its problem details
   */
  refused(error: unknown): Problem;
}

/** Clients may cache the list of tools for a minute, because the model stays the same while the server runs. */
const cacheHint = { ttlMs: 60_000, cacheScope: "public" } as const;

interface EndpointOptions {
  readonly model: Pick<ServedModel, "name">;
  readonly version: string;
}

export class Endpoint {
  readonly #tool: ModelTool;
  readonly #options: EndpointOptions;
  readonly #calls = new WeakMap<Request, Call>();
  readonly #handler: McpHttpHandler;

  constructor(tool: ModelTool, options: EndpointOptions) {
    this.#tool = tool;
    this.#options = options;
    this.#handler = createMcpHandler((context) => this.#server(context));
  }

  answer(request: Request, message: unknown, call: Call): Promise<Response> {
    this.#calls.set(request, call);
    return this.#handler.fetch(request, { parsedBody: message });
  }

  /** Creates an MCP server for one request, because the handler uses the protocol without sessions. */
  #server({ requestInfo }: McpRequestContext): Server {
    const { model, version } = this.#options;
    const call = requestInfo && this.#calls.get(requestInfo);
    if (call === undefined) throw new RangeError("the request is not the request of answer()");
    const server = new Server(
      { name: "sconce", title: model.name, version },
      { capabilities: { tools: {} }, cacheHints: { "tools/list": cacheHint, "server/discover": cacheHint } },
    );
    server.setRequestHandler("tools/list", () => ({ tools: [this.#tool.declaration] }));
    server.setRequestHandler("tools/call", async ({ params: { name, arguments: args } }) => {
      const { declaration, outputSchema } = this.#tool;
      if (name !== declaration.name) {
        const expected = `there is no tool ${JSON.stringify(name)}; the tool is ${JSON.stringify(declaration.name)}`;
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, expected);
      }
      try {
        return server.projectCallToolResult(this.#tool.result(await call.run(args)), outputSchema);
      } catch (error) {
        const problem = call.refused(error);
        if (problemStatus(problem) === 422) return this.#tool.refusal(problem);
        const { code, message, data } = rpcError(problem);
        throw new ProtocolError(code, message, data);
      }
    });
    return server;
  }
}
