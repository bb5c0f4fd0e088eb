/** The routes by which outputs are read one by one, as OpenAPI paths: events, and files as bytes. */
import { type RouteConfig, z } from "@hono/zod-openapi";
import { END_ID } from "./event-stream.ts";
import type { Family } from "./families.ts";

interface Shared {
  /** Of the path of a prediction. */
  readonly params: z.ZodObject;
  /** Headers of every request, and of every answer. */
  readonly traced: z.ZodRawShape;
  readonly answered: z.ZodRawShape;
  readonly fails: (...statuses: (400 | 404 | 416 | 429 | 500 | 503)[]) => RouteConfig["responses"];
  /** Records by their status. */
  readonly samples: { readonly examples: Readonly<Record<string, { readonly value: object }>> };
}

const lastEventId = z
  .string()
  .optional()
  .openapi({
    param: { name: "Last-Event-ID", in: "header" },
    description: "Of the last event that the client had: the others follow",
    example: "0:0-3",
  });
const range = z
  .string()
  .optional()
  .openapi({ param: { name: "Range", in: "header" }, description: "One part of the bytes", example: "bytes=0-1023" });
const ifNoneMatch = z
  .string()
  .optional()
  .openapi({ param: { name: "If-None-Match", in: "header" }, description: "The ETag of what the client has" });
const index = z
  .int()
  .min(0)
  .openapi({ param: { name: "index", in: "path" }, description: "Of the input", example: 0 });
const field = z.string().openapi({
  param: { name: "field", in: "path" },
  description: "The place in the output: names and indexes with slashes between them",
  example: "faces/0/crop",
});
const etag = z.string().openapi({ description: "Strong: the digest of the bytes" });

export function readingRoutes(family: Family, shared: Shared): RouteConfig[] {
  return [eventsRoute(family, shared), ...family.lists.map((list) => fileRoute(family, list, shared))];
}

function eventsRoute(
  { path, kind, idName, name, tag, noun }: Family,
  { params, traced, answered, fails, samples }: Shared,
): RouteConfig {
  const log = kind === "demo" ? "`log`: a piece of what the demo wrote; " : "";
  return {
    method: "get",
    path: `${path}/{${idName}}/events`,
    operationId: `stream${name}`,
    tags: [tag],
    summary: `Follow a ${noun} by server-sent events`,
    description: `\`start\`: it was accepted; \`output\`: index and output of an input that succeeded; ${log}\`completed\`: the ${noun} as it ended, with all outputs, also those of a large one that had no event of their own. Data is JSON.`,
    request: { params, headers: z.object({ "Last-Event-ID": lastEventId, ...traced }) },
    responses: {
      200: {
        description: "Events until the end",
        headers: z.object(answered),
        content: { "text/event-stream": { schema: z.string(), example: eventsExample(samples) } },
      },
      204: { description: "The client had the last event", headers: z.object(answered) },
      ...fails(400, 404, 500, 503),
    },
  };
}

function eventsExample({ examples: { pending, success } }: Shared["samples"]): string {
  const event = (name: string, data: unknown, id: string) =>
    `event: ${name}\ndata: ${JSON.stringify(data)}\nid: ${id}\n\n`;
  const outputs =
    success && "outputs" in success.value && Array.isArray(success.value.outputs) ? success.value.outputs : [];
  const middle = outputs.map((output: unknown) => event("output", { index: 0, output }, "0:0-0"));
  const end = success === undefined ? "" : event("completed", success.value, END_ID);
  return `retry: 1000\n\n${event("start", pending?.value, "0:")}${middle.join("")}${end}`;
}

function fileRoute(
  { path, idName, name, tag, noun }: Family,
  list: Family["lists"][number],
  { params, traced, answered, fails }: Shared,
): RouteConfig {
  const isDemo = list === "demo_outputs";
  const content = { "application/octet-stream": { schema: z.string().openapi({ format: "binary" }) } };
  const headers = z.object({ ETag: etag, ...answered });
  return {
    method: "get",
    path: `${path}/{${idName}}/${list}/{index}/{field}`,
    operationId: `get${name}${isDemo ? "Demo" : ""}OutputFile`,
    tags: [tag],
    summary: `Read a file in ${isDemo ? "a demo output" : "an output"} as bytes`,
    description: `The same bytes as those of the data URI in the ${noun}, with its media type; as soon as the output is there. Where the output itself is a file, the path ends with the index.`,
    request: {
      params: params.extend({ index, field }),
      headers: z.object({ Range: range, "If-None-Match": ifNoneMatch, ...traced }),
    },
    responses: {
      200: { description: "The file", headers, content },
      206: { description: "The part of it that was asked for", headers, content },
      304: { description: "The client has it", headers },
      ...fails(400, 404, 416, 429, 500, 503),
    },
  };
}
