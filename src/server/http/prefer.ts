/** The request headers that say how long a client waits, and what it likes to be answered. */
import { ProblemError } from "./problem.ts";

const DEFAULT_WAIT_S = 60;
export const MAX_WAIT_S = 300;
/** Time limits that can be asked for; numbers of other decimals are rounded to milliseconds. */
export const MIN_CANCEL_AFTER_S = 0.001;
export const MAX_CANCEL_AFTER_S = 999_999_999.999;

/**
 * `Prefer: wait[=seconds]` (RFC 7240): how long, in milliseconds, an answer may be held back for the end of a prediction; 0
 * without it. A preference that is not understood is ignored, as the RFC asks.
 */
export function waitMsOf(prefer: string | null): number {
  if (prefer === null) return 0;
  if (prefer === "wait") return DEFAULT_WAIT_S * 1000;
  const wait = /(?:^|,|;)\s*wait(?:\s*=\s*"?(\d+)"?)?\s*(?:,|;|$)/i.exec(prefer);
  if (wait === null) return 0;
  return Math.min(wait[1] === undefined ? DEFAULT_WAIT_S : Number(wait[1]), MAX_WAIT_S) * 1000;
}

/** `Prefer: outputs=url`: files among the outputs as links, where the server can. */
export const OUTPUTS_AS_LINKS = "outputs=url";

export function prefersLinks(prefer: string | null): boolean {
  return prefer !== null && /(?:^|,|;)\s*outputs\s*=\s*"?url"?\s*(?:,|;|$)/i.test(prefer);
}

/**
 * `Cancel-After: seconds`: the time limit that a client asks for, in milliseconds; undefined without it.
 * @throws ProblemError 400 when it is no number of seconds
 */
export function cancelAfterMsOf(header: string | null): number | undefined {
  if (header === null) return undefined;
  const ms = Math.round(1000 * Number(header));
  const isTaken = ms >= 1000 * MIN_CANCEL_AFTER_S && ms <= 1000 * MAX_CANCEL_AFTER_S;
  // Without a sign, an exponent or the prefix of another base.
  if (/^\d+(\.\d+)?$/.test(header) && isTaken) return ms;
  throw new ProblemError({
    status: 400,
    code: "bad_header",
    detail: `expected Cancel-After to be a number of seconds above 0, received ${JSON.stringify(header)}`,
  });
}
