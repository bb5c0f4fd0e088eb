/** The request headers that say whom to tell of a prediction, and of what. */
import { type Webhook, type WebhookEvent, webhookEvents } from "../webhooks/webhook.ts";
import { ProblemError } from "./problem.ts";

export const MAX_WEBHOOK_URL = 2048;

/**
 * `Webhook-URL` and `Webhook-Events: start, log, output, completed`, by default the last alone; undefined without a URL.
 * @throws ProblemError 400
 */
export function webhookOf(headers: Headers): Webhook | undefined {
  const url = headers.get("webhook-url");
  if (url === null) return undefined;
  if (!isTaken(url)) {
    throw badHeader(
      `Webhook-URL to be an http or https URL without user and password, of at most ${MAX_WEBHOOK_URL} characters`,
    );
  }
  const names = (headers.get("webhook-events") ?? "completed").split(",").map((name) => name.trim());
  if (!names.every(isEvent)) throw badHeader(`Webhook-Events to be some of ${webhookEvents.join(", ")}`);
  return { url, events: names };
}

function isTaken(text: string): boolean {
  if (text.length > MAX_WEBHOOK_URL || !URL.canParse(text)) return false;
  const { protocol, username, password } = new URL(text);
  return (protocol === "https:" || protocol === "http:") && username === "" && password === "";
}

function isEvent(name: string): name is WebhookEvent {
  return webhookEvents.some((known) => known === name);
}

/** The header itself is not told: a URL may be a secret. */
function badHeader(expected: string): ProblemError {
  return new ProblemError({ status: 400, code: "bad_header", detail: `expected ${expected}` });
}
