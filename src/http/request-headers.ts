/** Parses the request headers of predictions: wait, time limit, id and webhook. */
import type { Webhook } from "../predictions/webhooks/webhook.ts";
import { ProblemError } from "./problem.ts";
import type { RequestContext } from "./request.ts";

const DEFAULT_WAIT_S = 60;
export const MAX_WAIT_S = 300;
/** Limits of `Cancel-After`, whose values are rounded to milliseconds. */
export const MIN_CANCEL_AFTER_S = 0.001;
export const MAX_CANCEL_AFTER_S = 999_999_999.999;
export const MAX_WEBHOOK_URL = 2048;

/**
 * Parses `Prefer: wait[=seconds]` (RFC 7240).
 * @returns milliseconds that the answer may wait for the end of the prediction, at most `MAX_WAIT_S`; 0 without the preference, or if the value is no
 * number
 */
export function waitMsOf(prefer: string | null): number {
  if (prefer === null) return 0;
  if (prefer !== lastPrefer.header) lastPrefer = { header: prefer, waitMs: parsedWaitMs(prefer) };
  return lastPrefer.waitMs;
}

/** The last preference. The next request often has the same. */
let lastPrefer = { header: "", waitMs: 0 };

function parsedWaitMs(prefer: string): number {
  if (prefer === "wait") return DEFAULT_WAIT_S * 1000;
  const wait = /(?:^|,|;)\s*wait(?:\s*=\s*"?(\d+)"?)?\s*(?:,|;|$)/i.exec(prefer);
  if (wait === null) return 0;
  return Math.min(wait[1] === undefined ? DEFAULT_WAIT_S : Number(wait[1]), MAX_WAIT_S) * 1000;
}

/**
 * Parses `Cancel-After: seconds`.
 * @returns the time limit of the prediction in milliseconds; undefined without the header
 * @throws ProblemError 400
 */
export function cancelAfterMsOf(header: string | null): number | undefined {
  if (header === null) return undefined;
  const ms = Math.round(1000 * Number(header));
  const isInRange = ms >= 1000 * MIN_CANCEL_AFTER_S && ms <= 1000 * MAX_CANCEL_AFTER_S;
  // Accepts only digits and a fraction. Number() also accepts signs, exponents and hexadecimal numbers.
  if (/^\d+(\.\d+)?$/.test(header) && isInRange) return ms;
  throw badHeader(`Cancel-After to be a number of seconds from ${MIN_CANCEL_AFTER_S} to ${MAX_CANCEL_AFTER_S}`, header);
}

/**
 * Parses `Webhook-URL`.
 * @returns undefined without a Webhook-URL
 * @throws ProblemError 400, without the URL in its message, because a URL may contain a secret
 */
export function webhookOf(headers: Headers): Webhook | undefined {
  const url = headers.get("webhook-url");
  if (url === null) return undefined;
  if (!isWebhookUrl(url)) {
    throw badHeader(
      `Webhook-URL to be an http or https URL without user and password, of at most ${MAX_WEBHOOK_URL} characters`,
    );
  }
  return { url };
}

function isWebhookUrl(text: string): boolean {
  if (text.length > MAX_WEBHOOK_URL || !URL.canParse(text)) return false;
  const { protocol, username, password } = new URL(text);
  return (protocol === "https:" || protocol === "http:") && username === "" && password === "";
}

/** An id that a client chooses for its prediction: long enough to be unique by chance, and without characters that URLs escape. */
export const chosenId = /^[A-Za-z0-9][A-Za-z0-9_-]{15,63}$/;
/** The value of `Idempotency-Key`, with or without the quotes of a structured field (RFC 8941). */
export const idempotencyKeyPattern = /^"?([\x21\x23-\x7e]{16,255})"?$/;

/**
 * Validates an id that the client chose.
 * @returns the id, with the suffix of the client's API key if the request has a key
 * @throws ProblemError 400
 */
export function checkChosenId(id: string, { key }: Pick<RequestContext, "key">): string {
  const plain = key !== undefined && id.endsWith(key.idSuffix) ? id.slice(0, -key.idSuffix.length) : id;
  if (chosenId.test(plain)) return key?.ownId(plain) ?? plain;
  throw badHeader(
    "an id that a client chooses to be 16 to 64 of A-Z, a-z, 0-9, _ and -, the first of them no _ or -",
    id,
  );
}

/**
 * The id of a prediction with an `Idempotency-Key`: a hash, so that every process computes the same id.
 * @param path `/predictions` or `/demo`; the same key gives different ids for them
 * @throws ProblemError 400
 */
export function idOfKey(key: string, path: string): string {
  const [, text] = idempotencyKeyPattern.exec(key) ?? [];
  if (text === undefined) throw badHeader("Idempotency-Key to be 16 to 255 characters of ASCII without blanks", key);
  const hash = new Bun.CryptoHasher("sha256").update(`${path}\n${text}`).digest("base64url");
  // Replaces a leading - or _: command lines take a word with a leading - for an option, and PUT refuses both.
  return hash.replace(/^[-_]/, "0");
}

function badHeader(expected: string, received?: string): ProblemError {
  const shown = received && received.length > 300 ? `${received.slice(0, 300)}…` : received;
  const detail = `expected ${expected}${shown === undefined ? "" : `, received ${JSON.stringify(shown)}`}`;
  return new ProblemError({ code: "bad_header", detail });
}
