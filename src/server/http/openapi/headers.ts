/** Headers of requests and answers, as the OpenAPI document has them. */
import { z } from "@hono/zod-openapi";
import { webhookEvents } from "../../webhooks/webhook.ts";
import { contentEncodings } from "../decoded-body.ts";
import {
  MAX_CANCEL_AFTER_S,
  MAX_WAIT_S,
  MAX_WEBHOOK_URL,
  MIN_CANCEL_AFTER_S,
  OUTPUTS_AS_LINKS,
} from "../request-headers.ts";

/** A key that a client chose. */
export const sampleKey = "1c1d1c80-7d3f-4d2e-9f0e-0d1f5b0a4f6e";

/** A header whose value is free text. Not `example`: Swagger UI would send it. */
export function text(description: string, ...examples: readonly string[]) {
  return z.string().openapi({ description, ...(examples.length > 0 ? { examples: [...examples] } : {}) });
}

const sampleId = "RaEfxVXjXb3ZnDsQ";
/** Of every answer. */
export const answered = { "X-Request-Id": text("That of the request, or a new one", sampleId) };
/** Of answers that may have links in the places of outputs. */
export const linked = {
  "Preference-Applied": z.literal(OUTPUTS_AS_LINKS).optional().openapi({ description: "Where outputs are links" }),
};

/** Of every request. */
export const traced = {
  "X-Request-Id": z
    .string()
    .optional()
    .openapi({
      description:
        "Names the request in its answer and in the server's log: at most 128 characters of printable ASCII, or a new one takes its place",
      examples: [sampleId],
    }),
  traceparent: text(
    "W3C Trace Context: names the client's span in the server's log",
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
  ).optional(),
};

/** Of requests that may wait for the end of a prediction. */
export function prefer(hasLinks: boolean) {
  const wait = `\`wait\` or \`wait=seconds\` (at most ${MAX_WAIT_S}) answers at the end`;
  const links = `\`${OUTPUTS_AS_LINKS}\` answers with links in the places of outputs that are data URIs; they can be read as long as the outputs`;
  const description = hasLinks ? `${wait}; ${links}` : wait;
  return { Prefer: z.string().optional().openapi({ description, example: "wait=60" }) };
}

/** Of requests that create a prediction. */
export const creation = {
  "Cancel-After": z
    .number()
    .min(MIN_CANCEL_AFTER_S)
    .max(MAX_CANCEL_AFTER_S)
    .optional()
    .openapi({
      description: "A time limit for this prediction, in seconds, to the millisecond",
      examples: [30],
    }),
  "Webhook-URL": z
    .url()
    .max(MAX_WEBHOOK_URL)
    .optional()
    .openapi({
      description: "Told of the prediction, where the server has a secret to sign with",
      examples: ["https://example.com/told"],
    }),
  "Webhook-Events": text(
    `What it is told of: some of ${webhookEvents.join(", ")}; by default completed`,
    "start, completed",
  ).optional(),
  "Content-Encoding": z.enum(contentEncodings).optional().openapi({ description: "How the body was compressed" }),
};
export const idempotencyKey = {
  "Idempotency-Key": z
    .string()
    .min(16)
    .max(255)
    .optional()
    .openapi({
      description:
        "What is sent again with the same key and body makes no second prediction: the answer is the one that there is, as it stands",
      examples: [sampleKey],
    }),
};

/** Of a message to a webhook. */
export const signed = {
  "webhook-id": text("The same at every try of a message"),
  "webhook-timestamp": text("Of this try, in seconds since 1970"),
  "webhook-signature": text("As Standard Webhooks has it"),
};
