/** The routes by which predictions are created and canceled, as OpenAPI paths. */
import { type RouteConfig, z } from "@hono/zod-openapi";
import { isDataUrl } from "../../../author/data-url.ts";
import { END_ID } from "../event-stream.ts";
import type { Family } from "../record-json.ts";
import { chosenId } from "../request-headers.ts";
import { fails, json, unreadable } from "./answers.ts";
import { referenceTo } from "./component.ts";
import { answered, creation, idempotencyKey, linked, prefer, sampleKey, text, traced } from "./headers.ts";
import { type OutputSamples, recordSamples } from "./samples.ts";
import type { modelSchemas } from "./schemas.ts";

/** What differs from server to server. */
export interface Described {
  readonly schemas: ReturnType<typeof modelSchemas>;
  /** One input, shown in the docs and sent by their "Execute". */
  readonly example: unknown;
  /** Whether outputs may be links. */
  readonly hasLinks: boolean;
}

const creatingProblems = [
  "not_json",
  "body_unreadable",
  "body_incomplete",
  "origin_refused",
  "body_too_slow",
  "body_too_large",
  "unsupported_media_type",
  "inputs_invalid",
  "prediction_differs",
  "webhook_refused",
  "queue_full",
  ...unreadable,
  "predictions_unwritable",
] as const;

export function creatingRoutes(family: Family, { schemas, example, hasLinks }: Described): RouteConfig[] {
  const { path, kind, idName, name, tag, noun } = family;
  const schema = schemas.records[kind];
  const asked = { ...prefer(hasLinks), ...creation };
  const inputs = { schema: schemas.inputs, ...(example === undefined ? {} : { example: [example] }) };
  const form = { schema: { ...referenceTo("InputForm") } };
  // JSON first: generators that take one of them take that.
  const body = { required: true, content: { "application/json": inputs, "multipart/form-data": form } };
  const made = json(
    schema,
    `The ${noun} as it stands: pending, or ended if the client asked to wait`,
    { examples: recordSamples(family, schemas.samples, ["pending", "success", "failed"]) },
    { Location: text(`The path of the ${noun}`), ...(hasLinks ? linked : {}) },
  );
  const responses = { 200: made, ...fails(...creatingProblems) };
  return [
    {
      method: "post",
      path,
      operationId: `create${name}`,
      tags: [tag],
      summary: `Create a ${noun} from a list of inputs`,
      description: `Answers at once with a ${idName} to read it with, or, with \`Prefer: wait\`, at its end, or, with \`Accept: text/event-stream\`, with the events of stream${name}; a client that leaves before the end of these cancels it.`,
      request: { body, headers: z.object({ ...asked, ...idempotencyKey, ...traced }) },
      responses,
    },
    {
      method: "put",
      path: `${path}/{${idName}}`,
      operationId: `put${name}`,
      tags: [tag],
      summary: `Create a ${noun} once, under an id of your own`,
      description:
        "As POST, but what is sent again makes no second one: the answer is the one that there is, as it stands. The same body is needed.",
      request: {
        body,
        params: z.object({
          [idName]: z
            .string()
            .regex(chosenId)
            .openapi({ description: "Hard to guess", example: `${kind}-${sampleKey}` }),
        }),
        headers: z.object({ ...asked, ...traced }),
      },
      responses,
    },
    {
      method: "post",
      path: `${path}/{${idName}}/cancel`,
      operationId: `cancel${name}`,
      tags: [tag],
      summary: `Cancel a ${noun}`,
      description: "Inputs that wait are not run. What other clients sent is not touched.",
      request: { params: idOf(family), headers: z.object(traced) },
      responses: {
        200: json(schema, `The ${noun} as it now stands; one that had ended stays as it is`, {
          examples: recordSamples(family, schemas.samples, ["canceled", "success"]),
        }),
        ...fails("origin_refused", "prediction_not_found", "queue_full", ...unreadable, "predictions_unwritable"),
      },
    },
  ];
}

/** The parameter of the path of a prediction. */
export function idOf({ idName, path }: Family) {
  return z.object({ [idName]: z.string().openapi({ description: `As POST ${path} gave it` }) });
}

const eventsRequest = {
  "Last-Event-ID": text("Of the last event that the client had: the others follow", "0:0-3").optional(),
};
const eventsAnswer = { "Cache-Control": z.literal("no-cache, no-transform"), "X-Accel-Buffering": z.literal("no") };

const fileRequest = {
  Range: text("One part of the bytes", "bytes=0-1023").optional(),
  "If-Range": text("The ETag that the Range is for: of another file all bytes are sent").optional(),
  "If-None-Match": text("The ETag of what the client has").optional(),
};
const fileAnswer = {
  ETag: text("Strong: the digest of the bytes"),
  "Accept-Ranges": z.literal("bytes"),
  "Content-Disposition": text("A name for the file", 'inline; filename="crop-0.png"'),
  "Content-Security-Policy": text("Scripts in the file do not run"),
  "X-Content-Type-Options": z.literal("nosniff"),
};

export function readingRoutes(family: Family, described: Described): RouteConfig[] {
  const { lists } = family;
  const samples = described.schemas.samples;
  return [
    recordRoute(family, described),
    eventsRoute(family, samples),
    ...lists.map((list) => fileRoute(family, list, list === "outputs" ? samples.output : samples.demoOutput)),
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
      ...fails("prediction_not_found", "queue_full", ...unreadable),
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
    request: { params: idOf(family), headers: z.object({ ...eventsRequest, ...traced }) },
    responses: {
      200: {
        description: "Events until the end",
        headers: z.object({ ...eventsAnswer, ...answered }),
        content: { "text/event-stream": { schema: z.string(), example: eventsExample(family, samples) } },
      },
      204: { description: "The client had the last event", headers: z.object(answered) },
      ...fails("prediction_not_found", ...unreadable),
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

function fileRoute(family: Family, list: Family["lists"][number], sample: unknown): RouteConfig {
  const { path, idName, name, tag, noun } = family;
  const isDemo = list === "demo_outputs";
  const bytes = { schema: z.string().openapi({ format: "binary" }) };
  // The first is a type that generators know.
  const content = { "application/octet-stream": bytes, "*/*": bytes };
  const example = placeOfFile(sample);
  const headers = z.object({ ...fileAnswer, ...answered });
  const partHeaders = headers.extend({ "Content-Range": text("Which bytes of how many", "bytes 0-1023/5120") });
  return {
    method: "get",
    path: `${path}/{${idName}}/${list}/{index}/{field}`,
    operationId: `get${name}${isDemo ? "Demo" : ""}OutputFile`,
    tags: [tag],
    summary: `Read a file in ${isDemo ? "a demo output" : "an output"} as bytes`,
    description: `The same bytes as those of the data URI in the ${noun}, with its media type; as soon as the output is there. Where the output itself is a file, the path ends with the index.`,
    request: {
      params: idOf(family).extend({
        index: z.int().min(0).openapi({ description: "Of the input", example: 0 }),
        field: z.string().openapi({
          description: "The place in the output: names and indexes with slashes between them",
          ...(example === undefined ? {} : { example }),
        }),
      }),
      headers: z.object({ ...fileRequest, ...traced }),
    },
    responses: {
      200: { description: "The file", headers, content },
      206: { description: "The part of it that was asked for", headers: partHeaders, content },
      304: { description: "The client has it", headers },
      ...fails("prediction_not_found", "file_not_found", "range_not_satisfiable", "queue_full", ...unreadable),
    },
  };
}

/** Of the first in a sample. */
function placeOfFile(sample: unknown): string | undefined {
  if (typeof sample !== "object" || sample === null) return undefined;
  for (const [name, value] of Object.entries(sample)) {
    if (typeof value === "string" && isDataUrl(value)) return name;
    const within = placeOfFile(value);
    if (within !== undefined) return `${name}/${within}`;
  }
  return undefined;
}
