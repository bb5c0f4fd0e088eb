/** Answers messages of the Model Context Protocol (MCP), with the protocol's official package. */
import {
  createMcpHandler,
  type McpHttpHandler,
  type McpRequestContext,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  Server,
} from "@modelcontextprotocol/server";
import { z } from "zod";
import type { Watcher } from "../../../predictions/predictions.ts";
import { type Problem, problemStatus } from "../../problem.ts";
import type { ApiOptions } from "../apis.ts";
import type { Begun, Ended } from "../waited-predictions.ts";
import type { ModelTool } from "./model-tool.ts";
import { PartProgress } from "./part-progress.ts";
import { rpcError } from "./rpc-error.ts";

/** Runs, finds and cancels predictions for one MCP request. */
export interface Call {
  /** Starts a prediction, and waits for its end, or at most `waitMs` milliseconds; undefined: no limit. */
  begin(args: unknown, waitMs: number | undefined, watcher: Watcher | undefined): Promise<Begun>;
  /** Finds the prediction of an MCP task; undefined for an unknown or expired id. */
  find(id: string): Promise<Begun | undefined>;
  cancel(id: string): Promise<Begun | undefined>;
  /**
   * Counts and logs an error.
   * @returns its problem details
   */
  refused(error: unknown): Problem;
}

/** Identifier of MCP's extension for tasks, https://tasks.extensions.modelcontextprotocol.io. */
const TASKS = "io.modelcontextprotocol/tasks";
/** Milliseconds that clients should wait between requests for the state of a task. */
const POLL_MS = 1000;
/** Clients may cache the list of tools for a minute, because the model stays the same while the server runs. */
const cacheHint = { ttlMs: 60_000, cacheScope: "public" } as const;
const taskParams = z.looseObject({ taskId: z.string() });

export class Endpoint {
  readonly #tool: ModelTool;
  readonly #options: ApiOptions;
  readonly #calls = new WeakMap<Request, Call>();
  readonly #handler: McpHttpHandler;

  constructor(tool: ModelTool, options: ApiOptions) {
    this.#tool = tool;
    this.#options = options;
    this.#handler = createMcpHandler((context) => this.#server(context));
  }

  answer(request: Request, message: unknown, call: Call): Promise<Response> {
    this.#calls.set(request, call);
    return this.#handler.fetch(request, { parsedBody: message });
  }

  /** Creates an MCP server for one request, because the handler uses the protocol without sessions. */
  #server({ era, requestInfo }: McpRequestContext): Server {
    const { model, version } = this.#options;
    const call = requestInfo && this.#calls.get(requestInfo);
    if (call === undefined) throw new RangeError("the request is not the request of answer()");
    const server = new Server(
      { name: "sconce", title: model.name, version },
      {
        capabilities: { tools: {}, ...(era === "modern" ? { extensions: { [TASKS]: {} } } : {}) },
        cacheHints: { "tools/list": cacheHint, "server/discover": cacheHint },
      },
    );
    server.setRequestHandler("tools/list", () => ({ tools: [this.#tool.declaration] }));
    server.setRequestHandler("tools/call", async ({ params: { name, arguments: args } }, { mcpReq }) => {
      const { declaration, outputSchema } = this.#tool;
      if (name !== declaration.name) {
        const expected = `there is no tool ${JSON.stringify(name)}; the tool is ${JSON.stringify(declaration.name)}`;
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, expected);
      }
      const progressToken = mcpReq._meta?.progressToken;
      using progress =
        progressToken === undefined
          ? undefined
          : new PartProgress((count, message) => {
              const params = { progressToken, progress: count, ...(message === undefined ? {} : { message }) };
              return mcpReq.notify({ method: "notifications/progress", params });
            });
      try {
        const begun = await call.begin(
          args,
          knowsTasks(server) ? this.#options.config.taskAfterMs : undefined,
          progress,
        );
        await progress?.flush();
        if (begun.ended === undefined) return { content: [], resultType: "task", ...this.#task(begun) };
        return server.projectCallToolResult(this.#tool.result(begun.ended), outputSchema);
      } catch (error) {
        const problem = call.refused(error);
        if (problemStatus(problem) === 422) return this.#tool.refusal(problem);
        const { code, message, data } = rpcError(problem);
        throw new ProtocolError(code, message, data);
      }
    });
    if (era === "modern") this.#addTasks(server, call);
    return server;
  }

  #addTasks(server: Server, call: Call): void {
    const add = (method: string, answer: (id: string) => Promise<Begun | undefined>, isAcknowledged = false) => {
      server.setRequestHandler(method, { params: taskParams }, async ({ taskId }) => {
        if (!knowsTasks(server)) {
          throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { extensions: { [TASKS]: {} } } });
        }
        const begun = await answer(taskId);
        if (begun === undefined) {
          throw new ProtocolError(ProtocolErrorCode.InvalidParams, `there is no task ${JSON.stringify(taskId)}`);
        }
        return isAcknowledged ? {} : this.#task(begun);
      });
    };
    add("tasks/get", (id) => call.find(id));
    add("tasks/cancel", (id) => call.cancel(id), true);
    // `tasks/update` sends input that a task asked for. A prediction never asks, so the content is ignored.
    add("tasks/update", (id) => call.find(id), true);
  }

  #task({ id, createdAtMs, updatedAtMs, ended }: Begun) {
    const { retainAge } = this.#options.config;
    return {
      taskId: id,
      createdAt: new Date(createdAtMs).toISOString(),
      lastUpdatedAt: new Date(updatedAtMs).toISOString(),
      ttlMs: Number.isFinite(retainAge) ? 1000 * retainAge : null,
      pollIntervalMs: POLL_MS,
      ...(ended === undefined ? { status: "working" } : this.#ended(ended)),
    };
  }

  #ended(ended: Ended) {
    if (!ended.ok && ended.isCanceled) return { status: "cancelled" };
    return { status: "completed", result: { resultType: "complete", ...this.#tool.result(ended) } };
  }
}

function knowsTasks(server: Server): boolean {
  return server.getClientCapabilities()?.extensions?.[TASKS] !== undefined;
}
