/** Request and response headers in the OpenAPI document. */
import { z } from "@hono/zod-openapi";
import { webhookEvents } from "../../predictions/webhooks/webhook.ts";
import {
  idempotencyKeyPattern,
  MAX_CANCEL_AFTER_S,
  MAX_WAIT_S,
  MAX_WEBHOOK_URL,
  MIN_CANCEL_AFTER_S,
} from "../request-headers.ts";

export const sampleKey = "1c1d1c80-7d3f-4d2e-9f0e-0d1f5b0a4f6e";

/** A header with any text. The schema has `examples`, because Swagger UI would send the value of an `example`. */
export function text(description: string, ...examples: readonly string[]) {
  return z.string().openapi({ description, ...(examples.length > 0 ? { examples: [...examples] } : {}) });
}

const sampleId = "RaEfxVXjXb3ZnDsQ";
/** Response headers of every route. */
export const answered = { "X-Request-Id": text("The X-Request-Id of the request, or a new id", sampleId) };
/** Response headers of routes that answer with a prediction. */
export const modelHeader = {
  "X-Model": text("The build of the model that runs or ran the prediction", "digits:9f86d081884c").optional(),
};
/** Response headers of routes with the request header `Prefer`. */
export const applied = {
  "Preference-Applied": text(
    `\`wait=seconds\` if the request asked to wait; ${MAX_WAIT_S} if it asked for more`,
    "wait=60",
  ).optional(),
};

/** Request headers of every route. */
export const traced = {
  "X-Request-Id": z
    .string()
    .optional()
    .openapi({
      description:
        "Id of the request in the response and in the server's log: at most 128 characters of printable ASCII. The server replaces other values",
      examples: [sampleId],
    }),
  traceparent: text(
    "W3C Trace Context: the client's span, for the server's log",
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
  ).optional(),
};

/** Request headers of routes that can wait for the end of a prediction. */
export const prefer = {
  Prefer: z
    .string()
    .optional()
    .openapi({
      description: `\`wait\` or \`wait=seconds\` (at most ${MAX_WAIT_S}) answers at the end`,
      example: "wait=60",
    }),
};

/** Request headers of routes that create a prediction. */
export const creation = {
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
/** More request headers of routes that create a prediction, on a server with --webhook-secret. */
export const webhook = {
  "Webhook-URL": z
    .url()
    .max(MAX_WEBHOOK_URL)
    .optional()
    .openapi({
      description: "Receives messages about the prediction",
      examples: ["https://example.com/webhook"],
    }),
  "Webhook-Events": text(
    `Which messages it receives: some of ${webhookEvents.join(", ")}; by default completed`,
    "start, completed",
  ).optional(),
};
/** Request header of POST routes that create a prediction. */
export const idempotencyKey = {
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

/** Request headers of a message to a webhook. */
export const signed = {
  "webhook-id": text("The same for every attempt to send a message"),
  "webhook-timestamp": text("Time of this attempt, in seconds since 1970"),
  "webhook-signature": text("Signature according to Standard Webhooks"),
};
