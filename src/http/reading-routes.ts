/** The routes by which predictions are read, as OpenAPI paths: as they stand, as events, and files among outputs as bytes. */
import { type RouteConfig, z } from "@hono/zod-openapi";
import { type Described, idOf } from "./creating-routes.ts";
import { fails, json } from "./documented-answers.ts";
import { END_ID } from "./event-stream.ts";
import type { Family } from "./families.ts";
import { answered, linked, prefer, traced } from "./header-schemas.ts";
import { type OutputSamples, recordSamples } from "./record-samples.ts";

const lastEventId = z.string().optional().openapi({
  description: "Of the last event that the client had: the others follow",
  example: "0:0-3",
});
const range = z.string().optional().openapi({ description: "One part of the bytes", example: "bytes=0-1023" });
const ifNoneMatch = z.string().optional().openapi({ description: "The ETag of what the client has" });
const index = z.int().min(0).openapi({ description: "Of the input", example: 0 });
const field = z.string().openapi({
  description: "The place in the output: names and indexes with slashes between them",
  example: "faces/0/crop",
});
const etag = z.string().openapi({ description: "Strong: the digest of the bytes" });

export function readingRoutes(family: Family, described: Described): RouteConfig[] {
  const { lists } = family;
  const samples = described.schemas.samples;
  return [
    recordRoute(family, described),
    eventsRoute(family, samples),
    ...lists.map((list) => fileRoute(family, list)),
  ];
}

function recordRoute(family: Family, { schemas, hasLinks }: Described): RouteConfig {
  const { path, kind, idName, name, tag, noun } = family;
  return {
    method: "get",
    path: `${path}/{${idName}}`,
    operationId: `get${name}`,
    tags: [tag],
    summary: `Read a ${noun}`,
    description: `Answers at once, or, with \`Prefer: wait\`, at its end, or, with \`Accept: text/event-stream\`, as stream${name}. Ended ones can be read for a while.`,
    request: { params: idOf(family), headers: z.object({ ...prefer(hasLinks), ...traced }) },
    responses: {
      200: json(
        schemas.records[kind],
        `The ${noun} as it stands`,
        { examples: recordSamples(family, schemas.samples, ["success", "pending", "running", "failed"]) },
        hasLinks ? linked : {},
      ),
      ...fails(400, 404, 500, 503),
    },
  };
}

function eventsRoute(family: Family, samples: OutputSamples): RouteConfig {
  const { path, kind, idName, name, tag, noun } = family;
  const log = kind === "demo" ? "`log`: a piece of what the demo wrote; " : "";
  return {
    method: "get",
    path: `${path}/{${idName}}/events`,
    operationId: `stream${name}`,
    tags: [tag],
    summary: `Follow a ${noun} by server-sent events`,
    description: `\`start\`: it was accepted; \`output\`: index and output of an input that succeeded; ${log}\`completed\`: the ${noun} as it ended, with all outputs, also those of a large one that had no event of their own. Data is JSON.`,
    request: { params: idOf(family), headers: z.object({ "Last-Event-ID": lastEventId, ...traced }) },
    responses: {
      200: {
        description: "Events until the end",
        headers: z.object(answered),
        content: { "text/event-stream": { schema: z.string(), example: eventsExample(family, samples) } },
      },
      204: { description: "The client had the last event", headers: z.object(answered) },
      ...fails(400, 404, 500, 503),
    },
  };
}

function eventsExample(family: Family, samples: OutputSamples): string {
  const { pending, success } = recordSamples(family, samples, ["pending", "success"]);
  const event = (name: string, data: unknown, id: string) =>
    `event: ${name}\ndata: ${JSON.stringify(data)}\nid: ${id}\n\n`;
  const outputs =
    success && "outputs" in success.value && Array.isArray(success.value.outputs) ? success.value.outputs : [];
  const middle = outputs.map((output: unknown) => event("output", { index: 0, output }, "0:0-0"));
  const end = success === undefined ? "" : event("completed", success.value, END_ID);
  return `retry: 1000\n\n${event("start", pending?.value, "0:")}${middle.join("")}${end}`;
}

function fileRoute(family: Family, list: Family["lists"][number]): RouteConfig {
  const { path, idName, name, tag, noun } = family;
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
      params: idOf(family).extend({ index, field }),
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
