/** Ids that clients choose, so that what is sent again makes no second prediction. */
import { ProblemError } from "./problem.ts";

/** As many characters as make it hard to guess by accident; none needs escaping in a URL. Ids that the server makes may begin with others. */
export const chosenId = /^[A-Za-z0-9][A-Za-z0-9_-]{15,63}$/;
/** With or without the quotes of a structured field. */
const keyPattern = /^"?([\x21\x23-\x7e]{16,255})"?$/;

/** @throws ProblemError 400 */
export function checkChosenId(id: string): string {
  if (chosenId.test(id)) return id;
  throw badRequest(
    "an id that a client chooses",
    "16 to 64 of A-Z, a-z, 0-9, _ and -, the first of them no _ or -",
    id,
  );
}

/**
 * The id of a prediction whose client sent a key: with it every process finds the same.
 * @param path keys of one path are others than those of another
 * @throws ProblemError 400
 */
export function idOfKey(key: string, path: string): string {
  const [, text] = keyPattern.exec(key) ?? [];
  if (text === undefined) throw badRequest("Idempotency-Key", "16 to 255 characters of ASCII without blanks", key);
  return new Bun.CryptoHasher("sha256").update(`${path}\n${text}`).digest("base64url");
}

function badRequest(name: string, expected: string, received: string): ProblemError {
  const shown = JSON.stringify(received.length > 300 ? `${received.slice(0, 300)}…` : received);
  const detail = `expected ${name} to be ${expected}, received ${shown}`;
  return new ProblemError({ status: 400, code: "bad_header", detail });
}
