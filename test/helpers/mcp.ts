/**
 * Clients of the Model Context Protocol: the official client for both revisions of the protocol, and functions that
 * send single messages.
 */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

export const revision = "2026-07-28";
/** `legacy` is the handshake of the revision 2025-11-25, `modern` the revision 2026-07-28. */
export type Era = "modern" | "legacy";

const clientInfo = { name: "test", version: "1" };

/** A connected official client, for `await using`: the end of the scope closes it. */
export async function mcpClient(
  url: URL,
  era: Era,
  path = "/mcp",
): Promise<{ readonly client: Client } & AsyncDisposable> {
  const mode = era === "legacy" ? "legacy" : "auto";
  const client = new Client(clientInfo, { versionNegotiation: { mode } });
  await client.connect(new StreamableHTTPClientTransport(new URL(path, url)));
  if (client.getProtocolEra() !== era) throw new Error(`negotiated ${client.getProtocolEra()}, expected ${era}`);
  return { client, [Symbol.asyncDispose]: () => client.close() };
}

export interface MessageOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly meta?: Readonly<Record<string, unknown>>;
}

/** Sends one message of the revision 2026-07-28. */
export function send(
  url: URL,
  method: string,
  params: Readonly<Record<string, unknown>> = {},
  { headers = {}, meta = {} }: MessageOptions = {},
): Promise<Response> {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": revision,
    "io.modelcontextprotocol/clientInfo": clientInfo,
    "io.modelcontextprotocol/clientCapabilities": {},
    ...meta,
  };
  const message = { jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } };
  return post(url, message, { ...nameHeaders(method, params), ...headers });
}

/** Headers that repeat a message's method, and the name of its tool. */
function nameHeaders(method: string, { name }: Readonly<Record<string, unknown>>): Record<string, string> {
  return { "Mcp-Method": method, "Mcp-Name": String(name ?? "") };
}

export function post(url: URL, message: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
  return fetch(new URL("/mcp", url), {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": revision,
      ...headers,
    },
    body: typeof message === "string" ? message : JSON.stringify(message),
  });
}
