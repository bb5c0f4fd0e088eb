/** A request in an entry of the stream of unfinished predictions. */
import { z } from "zod";
import { LARGE_BYTES } from "../../pipeline/inputs/body.ts";
import { originOf, originText, type PredictionRequest } from "../request.ts";
import { webhookOf, webhookText } from "../webhooks/webhook.ts";
import { numberOf, type StreamEntry, textOf } from "./replies.ts";

export interface QueuedRequest extends Omit<PredictionRequest, "createdAtMs" | "model"> {
  readonly body: string | Uint8Array<ArrayBuffer>;
  readonly bytes: number;
}

/** A request that this process has claimed. */
export interface ClaimedEntry extends QueuedRequest {
  readonly createdAtMs: number;
  readonly deaths: number;
  /** Empty for a large body, which is in the hash of the prediction. */
  readonly body: string | Uint8Array<ArrayBuffer>;
}

const schema = z.object({
  id: z.string(),
  kind: z.enum(["prediction", "demo"]),
  count: z.number(),
  bytes: z.number(),
  timeoutMs: z.number(),
  isWaitedFor: z.boolean(),
  digest: z.string().optional(),
  origin: z.string(),
  webhook: z.string(),
});

export function requestText({ origin, webhook, ...request }: QueuedRequest): string {
  const { id, kind, count, bytes, timeoutMs, isWaitedFor = false, digest } = request;
  return JSON.stringify({
    ...{ id, kind, count, bytes, timeoutMs, isWaitedFor, digest },
    origin: originText(origin),
    webhook: webhook === undefined ? "" : webhookText(webhook),
  } satisfies z.infer<typeof schema>);
}

/** @param deliveries number of claims of the entry, the present claim included */
export function claimedOf({ fields }: StreamEntry, deliveries: number): ClaimedEntry {
  const [request, createdAtMs, deaths, body] = fields.filter((_, i) => i % 2 === 1);
  const { origin, webhook, ...facts } = schema.parse(JSON.parse(textOf(request)));
  return {
    ...facts,
    origin: originOf(origin),
    webhook: webhook === "" ? undefined : webhookOf(webhook),
    createdAtMs: numberOf(createdAtMs),
    deaths: numberOf(deaths) + deliveries - 1,
    body: bodyOf(body),
  };
}

/** Copies a large body, because other answers share its buffer and the body is transferred to a thread. A small body becomes a string. */
export function bodyOf(reply: unknown): Uint8Array<ArrayBuffer> | string {
  return reply instanceof Uint8Array && reply.length > LARGE_BYTES ? new Uint8Array(reply) : textOf(reply);
}
