/** A webhook: a URL that a client names, to which the server sends a signed message about the end of a prediction. */
import { createHmac } from "node:crypto";
import { z } from "zod";

export interface Webhook {
  readonly url: string;
}

export interface WebhookKey {
  readonly id: string;
  /** Distinguishes the prediction from a later prediction with the same id. */
  readonly createdAtMs: number;
}

/** The webhooks of stored predictions, so that later processes can send them. */
export interface WebhookStore {
  /** Removes a webhook whose message was delivered or given up. */
  remove(key: WebhookKey): void;
  /**
   * Gives undelivered webhooks of other processes to this process. A database gives the webhooks of earlier processes,
   * oldest first. A queue that servers share gives webhooks whose leases have ended, from now on.
   * @param owners selects predictions of a database by the first character of their ids
   */
  deliver(deliverer: Deliverer, owners: (owner: string) => boolean): Promise<void>;
}

/** The process that delivers webhooks. */
export interface Deliverer {
  /** Undelivered webhooks of this process. */
  readonly predictions: readonly WebhookKey[];
  readonly hasRoom: boolean;
  /** Starts sending the message of an ended prediction. */
  ended(key: WebhookKey, webhook: Webhook): void;
}

/** A secret of Standard Webhooks (https://www.standardwebhooks.com): `whsec_` and 24 to 64 bytes in base64. */
export const webhookSecret = z
  .string()
  .regex(/^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/, "must be whsec_ and 24 to 64 bytes in base64")
  .refine((secret) => keyOf(secret).length >= 24 && keyOf(secret).length <= 64, "must have 24 to 64 bytes");

/**
 * HMAC-SHA256 signatures of Standard Webhooks, one for each secret, so that a receiver may know the old or the new
 * secret.
 */
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
