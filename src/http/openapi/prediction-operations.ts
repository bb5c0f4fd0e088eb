/** Describes the operations of predictions and demo predictions in the OpenAPI document. */
import { z } from "@hono/zod-openapi";
import { contentEncodings } from "../body-reader.ts";
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
import { type Facts, json, type Operation } from "./operation.ts";
import { referenceTo } from "./schemas.ts";

const sampleKey = "1c1d1c80-7d3f-4d2e-9f0e-0d1f5b0a4f6e";

const prefer = {
  Prefer: z
    .string()
    .optional()
    .openapi({
      description: `\`wait\` or \`wait=seconds\` (at most ${MAX_WAIT_S}) answers at the end`,
      // Not `example`, whose value Swagger UI would send.
      examples: ["wait=60"],
    }),
};
const cancelAfter = z
  .number()
  .min(MIN_CANCEL_AFTER_S)
  .max(MAX_CANCEL_AFTER_S)
  .optional()
  .openapi({ description: "Time limit in seconds; fractions count to the millisecond", examples: [30] });
const webhook = {
  "Webhook-URL": z
    .url()
    .max(MAX_WEBHOOK_URL)
    .optional()
    .openapi({
      description: "Receives a message when the prediction has ended",
      examples: ["https://example.com/webhook"],
    }),
};
const idempotencyKey = z
  .string()
  .regex(idempotencyKeyPattern)
  .optional()
  .openapi({ description: "Requests with the same key and body create one prediction", examples: [sampleKey] });
function idOf({ idName, path }: Family): z.ZodRawShape {
  return { [idName]: z.string().openapi({ description: `The id from the answer of POST ${path}` }) };
}

/** Describes the routes of one kind of prediction. Each description is a function of the facts about the model. */
export function operationsOf(family: Family) {
  const { kind, idName, name, tag, noun } = family;
  const record = ({ schemas }: Facts, description: string) => ({ 200: json(schemas.records[kind], description) });
  const creates = (facts: Facts) => ({
    tag,
    headers: { ...prefer, "Cancel-After": cancelAfter, ...(facts.hasWebhooks ? webhook : {}) },
    body: {
      required: true,
      description: `A list of inputs as JSON, or one input as a form. It may be compressed, with a Content-Encoding: ${contentEncodings.join(", ")}`,
      // JSON comes first, because client generators that support one media type use the first.
      content: {
        "application/json": {
          schema: facts.schemas.inputs[kind],
          ...(facts.example === undefined ? {} : { example: [facts.example] }),
        },
        "multipart/form-data": { schema: { ...referenceTo("InputForm") } },
      },
    },
    answers: record(facts, `The current state of the ${noun}: pending, or finished if the client asked to wait`),
    fails: [403, 408, 413, 415, 422, 429, 503] as const satisfies readonly ProblemStatus[],
  });
  const one = { tag, params: idOf(family) };
  return {
    create: (facts: Facts): Operation => {
      const common = creates(facts);
      return {
        ...common,
        id: `create${name}`,
        summary: `Create a ${noun} from a list of inputs`,
        description: `Answers at once with a ${idName}. With \`Prefer: wait\` it answers when the ${noun} has finished. With \`Accept: text/event-stream\` it answers with events, as get${name}; a client that disconnects before their end cancels the ${noun}.`,
        headers: { ...common.headers, "Idempotency-Key": idempotencyKey },
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
    cancel: (facts: Facts): Operation => ({
      ...one,
      id: `cancel${name}`,
      summary: `Cancel a ${noun}`,
      description: "Queued inputs do not run. Inputs of other clients are not affected.",
      answers: record(facts, `The current state of the ${noun}; a finished ${noun} does not change`),
      fails: [403, 404, 429, 503],
    }),
    read: (facts: Facts): Operation => ({
      ...one,
      id: `get${name}`,
      summary: `Read a ${noun}`,
      description: `Answers at once. With \`Prefer: wait\` it answers when the ${noun} has finished. A finished ${noun} stays readable for a while. With \`Accept: text/event-stream\` it answers with server-sent events, whose data is JSON. \`start\`: the ${noun} was accepted; \`part\`: a part of an output, of a model with parts; \`output\`: index and output of an input that succeeded; ${kind === "demo" ? "`log`: a piece of the demo's logs; " : ""}\`completed\`: the finished ${noun} with all outputs. The last outputs of a large ${noun} may come in \`completed\` only.`,
      headers: prefer,
      answers: record(facts, `The current state of the ${noun}`),
      fails: [404, 429, 503],
    }),
  };
}
