/** Ids of predictions: a character for the front, the second of creation, 96 random bits against guessing. */
import { randomId } from "../base/random-id.ts";

/** First characters of ids: front N, at most 59, uses the character at index N. Ids that clients choose begin with any character. */
const owners = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
/** Ids contain the second of creation modulo this number, which makes ids of one time neighbours in an index. */
const SECONDS = 2 ** 24;
let second = -1;
let secondText = "";

/** The first character of the ids that the front with this index creates. */
export function ownerOf(index: number): string {
  return owners[index] ?? "0";
}

/**
 * Index of the front that has the prediction. If a restarted server has fewer processes, larger indices wrap
 * around.
 * @param fronts number of fronts
 * @returns undefined for a malformed id
 */
export function frontOf(id: string, fronts: number): number | undefined {
  const at = owners.indexOf(id.slice(0, 1));
  return id === "" || at < 0 ? undefined : at % fronts;
}

/**
 * Creates the id of a prediction: 21 base64url characters.
 * @param owner first character, from `ownerOf`
 * @param nowMs the present time of `Date.now()`
 */
export function newId(owner: string, nowMs = Date.now()): string {
  const now = Math.floor(nowMs / 1000) % SECONDS;
  if (now !== second) {
    second = now;
    secondText = Uint8Array.of(now >> 16, now >> 8, now).toBase64({ alphabet: "base64url" });
  }
  return owner + secondText + randomId();
}
