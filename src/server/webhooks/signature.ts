/** Signatures of Standard Webhooks (https://www.standardwebhooks.com): HMAC-SHA256 over id, time and body. */
import { createHmac } from "node:crypto";
import { z } from "zod";

/** `whsec_` and 24 to 64 bytes in base64, as the specification has them. */
export const webhookSecret = z
  .string()
  .regex(/^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/, "must be whsec_ and 24 to 64 bytes in base64")
  .refine((secret) => keyOf(secret).length >= 24 && keyOf(secret).length <= 64, "must have 24 to 64 bytes");

/** One signature for each secret, apart by blanks: a receiver may know the old one or the new one. */
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
