/** Describes the routes of predictions and demo predictions in the OpenAPI document. */
import { type RouteConfig, z } from "@hono/zod-openapi";
import type { JsonSchema } from "../../base/schemas/json-schema.ts";
import { contentEncodings } from "../decoded-body.ts";
import type { Family } from "../record-json.ts";
import { chosenId } from "../request-headers.ts";
import { fails, json, unreadable } from "./answers.ts";
import type { DescribedApi } from "./api-routes.ts";
import { referenceTo } from "./component.ts";
import {
  answered,
  applied,
  creation,
  idempotencyKey,
  modelHeader,
  prefer,
  sampleKey,
  text,
  traced,
  webhook,
} from "./headers.ts";
import type { modelSchemas } from "./schemas.ts";

export interface Described {
  readonly schemas: ReturnType<typeof modelSchemas>;
  /** An input that Swagger UI shows and sends. */
  readonly example: unknown;
  readonly hasKeys?: boolean;
  /** Whether the server has --webhook-secret, without which it sends no webhooks. */
  readonly hasWebhooks?: boolean;
  readonly hasPage?: boolean;
  readonly apis?: readonly DescribedApi[];
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

export function creatingRoutes(
  family: Family,
  { schemas, example, hasKeys = false, hasWebhooks = false }: Described,
): RouteConfig[] {
  const { path, kind, idName, name, tag, noun } = family;
  const schema = schemas.records[kind];
  const asked = { ...prefer, ...creation, ...(hasWebhooks ? webhook : {}) };
  const inputs = { schema: schemas.inputs, ...(example === undefined ? {} : { example: [example] }) };
  const form = { schema: { ...referenceTo("InputForm") } };
  const description = `A list of inputs as JSON, or one input as a form. It may be compressed, with a Content-Encoding: ${contentEncodings.join(", ")}`;
  // JSON comes first, because client generators that support one media type use the first.
  const body = { required: true, description, content: { "application/json": inputs, "multipart/form-data": form } };
  const made = json(
    schema,
    `The current state of the ${noun}: pending, or finished if the client asked to wait`,
    {},
    { Location: text(`The path of the ${noun}`), ...applied, ...modelHeader },
  );
  const responses = { 200: made, ...fails(...creatingProblems, ...(hasKeys ? ["key_limit" as const] : [])) };
  return [
    {
      method: "post",
      path,
      operationId: `create${name}`,
      tags: [tag],
      summary: `Create a ${noun} from a list of inputs`,
      description: `Answers at once with a ${idName}. With \`Prefer: wait\` it answers when the ${noun} has finished. With \`Accept: text/event-stream\` it answers with the events of stream${name}; a client that disconnects before their end cancels the ${noun}.`,
      request: { body, headers: z.object({ ...asked, ...idempotencyKey, ...traced }) },
      responses,
    },
    {
      method: "put",
      path: `${path}/{${idName}}`,
      operationId: `put${name}`,
      tags: [tag],
      summary: `Create a ${noun} once, under an id of your choice`,
      description:
        "Like POST, but a repeated request creates no second prediction: the answer is the current state of the first. The body must be the same.",
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
      description: "Queued inputs do not run. Inputs of other clients are not affected.",
      request: { params: idOf(family), headers: z.object(traced) },
      responses: {
        200: json(schema, `The current state of the ${noun}; a finished ${noun} does not change`, {}, modelHeader),
        ...fails("origin_refused", "prediction_not_found", "queue_full", ...unreadable, "predictions_unwritable"),
      },
    },
  ];
}

function idOf({ idName, path }: Family) {
  return z.object({ [idName]: z.string().openapi({ description: `The id from the answer of POST ${path}` }) });
}

const eventsRequest = {
  "Last-Event-ID": text(
    "Id of the last event that the client received; the stream continues after it",
    "0:0-3",
  ).optional(),
};
const eventsAnswer = { "Cache-Control": z.literal("no-cache, no-transform"), "X-Accel-Buffering": z.literal("no") };

const fileRequest = {
  Range: text("One part of the bytes", "bytes=0-1023").optional(),
  "If-Range": text("The ETag that the Range belongs to; if the file has another, the answer has all bytes").optional(),
  "If-None-Match": text("The ETag of the copy that the client has").optional(),
};
const fileAnswer = {
  ETag: text("Strong: the digest of the bytes"),
  "Accept-Ranges": z.literal("bytes"),
  "Content-Disposition": text("A name for the file", 'inline; filename="crop-0.png"'),
  "Content-Security-Policy": text("Scripts in the file do not run"),
  "X-Content-Type-Options": z.literal("nosniff"),
};

export function readingRoutes(family: Family, described: Described): RouteConfig[] {
  const files = family.lists.map((list) => fileRoute(family, list));
  return [recordRoute(family, described), eventsRoute(family, described), ...files];
}

function recordRoute(family: Family, { schemas }: Described): RouteConfig {
  const { path, kind, idName, name, tag, noun } = family;
  return {
    method: "get",
    path: `${path}/{${idName}}`,
    operationId: `get${name}`,
    tags: [tag],
    summary: `Read a ${noun}`,
    description: `Answers at once. With \`Prefer: wait\` it answers when the ${noun} has finished, with \`Accept: text/event-stream\` like stream${name}. A finished ${noun} stays readable for a while.`,
    request: { params: idOf(family), headers: z.object({ ...prefer, ...traced }) },
    responses: {
      200: json(schemas.records[kind], `The current state of the ${noun}`, {}, { ...applied, ...modelHeader }),
      ...fails("prediction_not_found", "queue_full", ...unreadable),
    },
  };
}

function eventsRoute(family: Family, { schemas: { definitions } }: Described): RouteConfig {
  const { path, kind, idName, name, tag, noun } = family;
  const part = definitions.has("Part") ? "`part`: a part of an output, as PartEvent, before the whole output; " : "";
  const log = kind === "demo" ? "`log`: a piece of the demo's logs; " : "";
  return {
    method: "get",
    path: `${path}/{${idName}}/events`,
    operationId: `stream${name}`,
    tags: [tag],
    summary: `Follow a ${noun} by server-sent events`,
    description: `\`start\`: the ${noun} was accepted; ${part}\`output\`: index and output of an input that succeeded; ${log}\`completed\`: the finished ${noun} with all outputs. The last outputs of a large ${noun} may come in \`completed\` only. Data is JSON.`,
    request: { params: idOf(family), headers: z.object({ ...eventsRequest, ...traced }) },
    responses: {
      200: {
        description: "Events until the end",
        headers: z.object({ ...eventsAnswer, ...modelHeader, ...answered }),
        content: {
          "text/event-stream": {
            schema: definitions.has("Part") ? z.string().openapi({ ...partContent }) : z.string(),
          },
        },
      },
      204: { description: "The client has received the last event", headers: z.object(answered) },
      ...fails("prediction_not_found", ...unreadable),
    },
  };
}

/** The event `part` as the content of a string, since OpenAPI 3.1 has no other way to describe the events of a stream. */
const partContent: JsonSchema = {
  contentMediaType: "text/event-stream",
  contentSchema: referenceTo("PartEvent"),
};

function fileRoute(family: Family, list: Family["lists"][number]): RouteConfig {
  const { path, idName, name, tag, noun } = family;
  const isDemo = list === "demo_outputs";
  const bytes = { schema: z.string().openapi({ format: "binary" }) };
  // Client generators know the first media type, and ignore `*/*`.
  const content = { "application/octet-stream": bytes, "*/*": bytes };
  const headers = z.object({ ...fileAnswer, ...modelHeader, ...answered });
  const partHeaders = headers.extend({
    "Content-Range": text("Range of these bytes, and size of the file", "bytes 0-1023/5120"),
  });
  return {
    method: "get",
    path: `${path}/{${idName}}/${list}/{index}/{field}`,
    operationId: `get${name}${isDemo ? "Demo" : ""}OutputFile`,
    tags: [tag],
    summary: `Read a file in ${isDemo ? "a demo output" : "an output"} as bytes`,
    description: `The bytes and the media type of the data URI in the ${noun}, readable as soon as the output exists. If the output itself is a file, the path ends with the index.`,
    request: {
      params: idOf(family).extend({
        index: z.int().min(0).openapi({ description: "Index of the input", example: 0 }),
        field: z.string().openapi({ description: "Path in the output: names and indexes with slashes between them" }),
      }),
      headers: z.object({ ...fileRequest, ...traced }),
    },
    responses: {
      200: { description: "The file", headers, content },
      206: { description: "The requested range of bytes", headers: partHeaders, content },
      304: { description: "The client's copy is current", headers },
      ...fails("prediction_not_found", "file_not_found", "range_not_satisfiable", "queue_full", ...unreadable),
    },
  };
}
