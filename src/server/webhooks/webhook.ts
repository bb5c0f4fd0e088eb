/** Webhooks of predictions: the receiver that a client names, the store of undelivered ones, and the signature of messages. */
import { createHmac } from "node:crypto";
import { z } from "zod";

export const webhookEvents = ["start", "log", "output", "completed"] as const;
export type WebhookEvent = (typeof webhookEvents)[number];

const schema = z.object({ url: z.string(), events: z.array(z.enum(webhookEvents)) });
export type Webhook = Readonly<z.infer<typeof schema>>;

/** JSON for stores. */
export function webhookText({ url, events }: Webhook): string {
  return JSON.stringify({ url, events });
}

export function webhookOf(text: string): Webhook {
  return schema.parse(JSON.parse(text));
}

/** The prediction of a webhook. */
export interface WebhookKey {
  readonly id: string;
  /** Distinguishes the prediction from a later one with the same id. Undefined for an unknown time. */
  readonly createdAtMs: number | undefined;
}

export interface StoredWebhook {
  /** Id of the prediction. */
  readonly id: string;
  readonly webhook: string;
}

/** Keeps undelivered webhooks for later processes. */
export interface WebhookStore {
  /** Undelivered webhooks of all processes; undefined where this process delivers all. */
  readonly count?: number;
  /** @throws SconceError `predictions_unwritable` */
  add(id: string, webhook: string): Promise<void>;
  /** Removes a webhook that was delivered or given up. */
  remove(key: WebhookKey): void;
  /** Undelivered webhooks of earlier processes with these owners, oldest first. */
  undelivered(owners: (owner: string) => boolean): Promise<readonly StoredWebhook[]>;
}

/** `whsec_` and 24 to 64 bytes in base64, as in Standard Webhooks (https://www.standardwebhooks.com). */
export const webhookSecret = z
  .string()
  .regex(/^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/, "must be whsec_ and 24 to 64 bytes in base64")
  .refine((secret) => keyOf(secret).length >= 24 && keyOf(secret).length <= 64, "must have 24 to 64 bytes");

/** HMAC-SHA256 signatures of Standard Webhooks, one for each secret: during a rotation a receiver knows the old or the new secret. */
export function signatures(
  secrets: readonly string[],
  { id, seconds, body }: { readonly id: string; readonly seconds: number; readonly body: string },
): string {
  const signed = `${id}.${seconds}.${body}`;
  return secrets.map((secret) => `v1,${createHmac("sha256", keyOf(secret)).update(signed).digest("base64")}`).join(" ");
}

function keyOf(secret: string): Buffer {
  return Buffer.from(secret.slice("whsec_".length), "base64");
}
