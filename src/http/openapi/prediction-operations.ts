/** Describes the operations of predictions and demo predictions in the OpenAPI document. */
import { z } from "@hono/zod-openapi";
import type { JsonSchema } from "../../base/schemas/json-schema.ts";
import { webhookEvents } from "../../predictions/webhooks/webhook.ts";
import { contentEncodings } from "../decoded-body.ts";
import type { ProblemStatus } from "../problem.ts";
import type { Family } from "../record-json.ts";
import {
  chosenId,
  idempotencyKeyPattern,
  MAX_CANCEL_AFTER_S,
  MAX_WAIT_S,
  MAX_WEBHOOK_URL,
  MIN_CANCEL_AFTER_S,
} from "../request-headers.ts";
import { referenceTo } from "./component.ts";
import { type Facts, json, type Operation, text } from "./operation.ts";

const sampleKey = "1c1d1c80-7d3f-4d2e-9f0e-0d1f5b0a4f6e";

export const modelHeader = {
  "X-Model": text("The build of the model that runs or ran the prediction", "digits:9f86d081884c").optional(),
};
const prefer = {
  Prefer: z
    .string()
    .optional()
    .openapi({
      description: `\`wait\` or \`wait=seconds\` (at most ${MAX_WAIT_S}) answers at the end`,
      example: "wait=60",
    }),
};
const applied = {
  "Preference-Applied": text(
    `\`wait=seconds\` if the request asked to wait; ${MAX_WAIT_S} if it asked for more`,
    "wait=60",
  ).optional(),
};
const creation = {
  ...prefer,
  "Cancel-After": z
    .number()
    .min(MIN_CANCEL_AFTER_S)
    .max(MAX_CANCEL_AFTER_S)
    .optional()
    .openapi({
      description: "Time limit of this prediction, in seconds; fractions count to the millisecond",
      examples: [30],
    }),
};
const webhook = {
  "Webhook-URL": z
    .url()
    .max(MAX_WEBHOOK_URL)
    .optional()
    .openapi({ description: "Receives messages about the prediction", examples: ["https://example.com/webhook"] }),
  "Webhook-Events": text(
    `Which messages it receives: some of ${webhookEvents.join(", ")}; by default completed`,
    "start, completed",
  ).optional(),
};
const idempotencyKey = {
  "Idempotency-Key": z
    .string()
    .regex(idempotencyKeyPattern)
    .optional()
    .openapi({
      description:
        "A repeated request with the same key and body creates no second prediction. The answer is the current state of the first",
      examples: [sampleKey],
    }),
};
const lastEvent = {
  "Last-Event-ID": text(
    "Id of the last event that the client received; the stream continues after it",
    "0:0-3",
  ).optional(),
};
const eventHeaders = { "Cache-Control": z.literal("no-cache, no-transform"), "X-Accel-Buffering": z.literal("no") };
/** The event `part` as the content of a string, since OpenAPI 3.1 has no other way to describe the events of a stream. */
const partContent: JsonSchema = { contentMediaType: "text/event-stream", contentSchema: referenceTo("PartEvent") };

export function idOf({ idName, path }: Family): z.ZodRawShape {
  return { [idName]: z.string().openapi({ description: `The id from the answer of POST ${path}` }) };
}

/** The operations of one kind of prediction, as functions of the facts about the model. */
export function operationsOf(family: Family) {
  const { kind, idName, name, tag, noun } = family;
  const creates = ({ schemas, example, hasWebhooks }: Facts) => ({
    tag,
    headers: { ...creation, ...(hasWebhooks ? webhook : {}) },
    body: {
      required: true,
      description: `A list of inputs as JSON, or one input as a form. It may be compressed, with a Content-Encoding: ${contentEncodings.join(", ")}`,
      // JSON comes first, because client generators that support one media type use the first.
      content: {
        "application/json": { schema: schemas.inputs, ...(example === undefined ? {} : { example: [example] }) },
        "multipart/form-data": { schema: { ...referenceTo("InputForm") } },
      },
    },
    answers: {
      200: json(
        schemas.records[kind],
        `The current state of the ${noun}: pending, or finished if the client asked to wait`,
        { headers: { Location: text(`The path of the ${noun}`), ...applied, ...modelHeader } },
      ),
    },
    fails: [403, 408, 413, 415, 422, 429, 503] as const satisfies readonly ProblemStatus[],
  });
  return {
    create: (facts: Facts): Operation => {
      const common = creates(facts);
      return {
        ...common,
        id: `create${name}`,
        summary: `Create a ${noun} from a list of inputs`,
        description: `Answers at once with a ${idName}. With \`Prefer: wait\` it answers when the ${noun} has finished. With \`Accept: text/event-stream\` it answers with the events of stream${name}; a client that disconnects before their end cancels the ${noun}.`,
        headers: { ...common.headers, ...idempotencyKey },
      };
    },
    put: (facts: Facts): Operation => ({
      ...creates(facts),
      id: `put${name}`,
      summary: `Create a ${noun} once, under an id of your choice`,
      description:
        "Like POST, but a repeated request creates no second prediction: the answer is the current state of the first. The body must be the same.",
      params: {
        [idName]: z
          .string()
          .regex(chosenId)
          .openapi({ description: "Hard to guess", example: `${kind}-${sampleKey}` }),
      },
    }),
    cancel: ({ schemas }: Facts): Operation => ({
      id: `cancel${name}`,
      tag,
      summary: `Cancel a ${noun}`,
      description: "Queued inputs do not run. Inputs of other clients are not affected.",
      params: idOf(family),
      answers: {
        200: json(schemas.records[kind], `The current state of the ${noun}; a finished ${noun} does not change`, {
          headers: modelHeader,
        }),
      },
      fails: [403, 404, 429, 503],
    }),
    read: ({ schemas }: Facts): Operation => ({
      id: `get${name}`,
      tag,
      summary: `Read a ${noun}`,
      description: `Answers at once. With \`Prefer: wait\` it answers when the ${noun} has finished, with \`Accept: text/event-stream\` like stream${name}. A finished ${noun} stays readable for a while.`,
      params: idOf(family),
      headers: prefer,
      answers: {
        200: json(schemas.records[kind], `The current state of the ${noun}`, {
          headers: { ...applied, ...modelHeader },
        }),
      },
      fails: [404, 429, 503],
    }),
    stream: ({ schemas: { definitions } }: Facts): Operation => {
      const hasParts = definitions.has("Part");
      const part = hasParts ? "`part`: a part of an output, as PartEvent, before the whole output; " : "";
      const log = kind === "demo" ? "`log`: a piece of the demo's logs; " : "";
      return {
        id: `stream${name}`,
        tag,
        summary: `Follow a ${noun} by server-sent events`,
        description: `\`start\`: the ${noun} was accepted; ${part}\`output\`: index and output of an input that succeeded; ${log}\`completed\`: the finished ${noun} with all outputs. The last outputs of a large ${noun} may come in \`completed\` only. Data is JSON.`,
        params: idOf(family),
        headers: lastEvent,
        answers: {
          200: {
            description: "Events until the end",
            headers: { ...eventHeaders, ...modelHeader },
            content: { "text/event-stream": { schema: z.string().openapi(hasParts ? { ...partContent } : {}) } },
          },
          204: { description: "The client has received the last event" },
        },
        fails: [404, 503],
      };
    },
  };
}
