/** The Model Context Protocol at /mcp. The model is a tool, and a long prediction is a task. */
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import { SconceError } from "../../../../base/errors.ts";
import { isObject } from "../../../../base/json.ts";
import { utf8 } from "../../../inputs/input-decoder.ts";
import type { Problem } from "../../problem.ts";
import { contextOf } from "../../request.ts";
import type { ApiOptions, ErrorForm } from "../apis.ts";
import type { Endpoint } from "./endpoint.ts";
import { ModelTool } from "./model-tool.ts";
import { rpcError } from "./rpc-error.ts";

export function addMcp(app: OpenAPIHono, options: ApiOptions): ErrorForm {
  const { predictions, refused } = options;
  const tool = new ModelTool(options.model);
  let opening: Promise<Endpoint> | undefined;
  app.post("/mcp", async (c) => {
    const { raw } = c.req;
    const origin = contextOf(c);
    const taskId = taskOf(raw.headers);
    const forwarded = taskId === undefined ? undefined : await predictions.forward(taskId, raw, origin);
    if (forwarded !== undefined) return forwarded;
    const message = messageIn(await textOf(raw, options));
    // Only servers with MCP clients spend the memory of the protocol's package.
    opening ??= import("./endpoint.ts").then(({ Endpoint }) => new Endpoint(tool, options));
    return await (await opening).answer(raw, message, {
      begin: (args, waitMs, watcher) =>
        predictions.begin(c, { inputs: `[${tool.inputOf(args)}]`, origin, waitMs, watcher }),
      find: (id) => predictions.find(c, id),
      cancel: (id) => predictions.cancel(c, id),
      refused: (error) => refused(c, error),
    });
  });
  return { hasPath: (path) => path === "/mcp", answer: errorAnswer };
}

function errorAnswer(_: Context, problem: Problem): Response {
  const { status } = problem;
  const headers = new Headers(problem.headers);
  return Response.json({ jsonrpc: "2.0", id: null, error: rpcError(problem) }, { status, headers });
}

/** Clients name the task in a header, so that the front of the task is found without the body. */
function taskOf(headers: Headers): string | undefined {
  const isTask = headers.get("mcp-method")?.startsWith("tasks/") ?? false;
  return isTask ? (headers.get("mcp-name") ?? undefined) : undefined;
}

async function textOf(raw: Request, { predictions }: ApiOptions): Promise<string> {
  const { body, charge } = await predictions.readMessage(raw);
  // The prediction charges its inputs again.
  using _ = charge;
  return typeof body === "string" ? body : utf8(Bun.concatArrayBuffers([...body], Infinity, true));
}

function messageIn(text: string): Readonly<Record<string, unknown>> {
  let message: unknown;
  try {
    message = JSON.parse(text);
  } catch (error) {
    throw new SconceError("body_invalid", "the body is not JSON", { cause: error });
  }
  // The protocol has no batches since its revision 2025-06-18.
  if (!isObject(message)) throw new SconceError("body_invalid", "expected one JSON-RPC message");
  return message;
}
