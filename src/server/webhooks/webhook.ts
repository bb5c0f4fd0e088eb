/** Whom a client wants told of a prediction, and of what. */
import { z } from "zod";

export const webhookEvents = ["start", "log", "output", "completed"] as const;
export type WebhookEvent = (typeof webhookEvents)[number];

const schema = z.object({ url: z.string(), events: z.array(z.enum(webhookEvents)) });
export type Webhook = Readonly<z.infer<typeof schema>>;

/** As it lies in a store. */
export function webhookText({ url, events }: Webhook): string {
  return JSON.stringify({ url, events });
}

export function webhookOf(text: string): Webhook {
  return schema.parse(JSON.parse(text));
}
