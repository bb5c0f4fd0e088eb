/** Headers of requests and answers, as the OpenAPI document has them. */
import { z } from "@hono/zod-openapi";
import { webhookEvents } from "../webhooks/webhook.ts";
import { MAX_CANCEL_AFTER_S, MAX_WAIT_S, OUTPUTS_AS_LINKS } from "./prefer.ts";
import { MAX_WEBHOOK_URL } from "./webhook-headers.ts";

/** An id or key that a client chose. */
export const sampleKey = "1c1d1c80-7d3f-4d2e-9f0e-0d1f5b0a4f6e";

/** Of every answer. */
export const answered = {
  "X-Request-Id": z.string().openapi({ description: "That of the request, or a new one", example: "RaEfxVXjXb3ZnDsQ" }),
};
export const retryAfter = {
  "Retry-After": z.int().min(0).openapi({ description: "Seconds to wait before the next try", example: 1 }),
};
export const linked = {
  "Preference-Applied": z.literal(OUTPUTS_AS_LINKS).optional().openapi({ description: "Where outputs are links" }),
};

/** Of every request. */
export const traced = {
  "X-Request-Id": z.string().max(128).optional().openapi({
    description: "Names the request in its answer and in the server's log: printable ASCII",
    example: "RaEfxVXjXb3ZnDsQ",
  }),
  traceparent: z.string().optional().openapi({
    description: "W3C Trace Context: names the client's span in the server's log",
    example: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
  }),
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
  "Cancel-After": z.number().min(0.001).max(MAX_CANCEL_AFTER_S).optional().openapi({
    description: "A time limit for this prediction, in seconds; at most three decimals",
    example: 30,
  }),
  "Webhook-URL": z.url().max(MAX_WEBHOOK_URL).optional().openapi({
    description: "Told of the prediction, where the server has a secret to sign with",
    example: "https://example.com/told",
  }),
  "Webhook-Events": z
    .string()
    .optional()
    .openapi({
      description: `What it is told of: some of ${webhookEvents.join(", ")}; by default completed`,
      example: "start, completed",
    }),
};
export const idempotencyKey = {
  "Idempotency-Key": z.string().min(16).max(257).optional().openapi({
    description:
      "What is sent again with the same key and body makes no second prediction: the answer is the one that there is, as it stands",
    example: sampleKey,
  }),
};

/** Of a message to a webhook. */
export const signed = {
  "webhook-id": z.string().openapi({ description: "The same at every try of a message" }),
  "webhook-timestamp": z.string().openapi({ description: "Of this try, in seconds since 1970" }),
  "webhook-signature": z.string().openapi({ description: "As Standard Webhooks has it" }),
};
