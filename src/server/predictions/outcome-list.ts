/** Extracts the elements of a list from the members of an outcome. Never parses or joins the members, which may contain large files. */
import { type Text, textsOf } from "./large-text.ts";
import type { Outcome } from "./record.ts";

/** Significant characters in a string, at the outer two levels, and deeper. */
const [inString, around, deep] = [/["\\]/g, /["[\]{},:]/g, /["[\]{}]/g];

/**
 * @param members output of `JSON.stringify`, without spaces
 * @param only index of the one wanted element; the result has empty texts for the others
 * @returns the JSON text of each element; undefined for a missing list
 */
export function listIn(members: Text, name: string, only?: number): string[] | undefined {
  const elements: string[] = [];
  let [depth, isString, isList] = [0, false, false];
  // The current name or element: its text from earlier pieces, and its start in this piece.
  let [begun, from] = ["", 0];
  let [piece, at] = ["", 0];
  const isWanted = () => depth === 0 || (isList && (only ?? elements.length) === elements.length);
  /** Ends the current name or element before the last significant character. */
  const take = () => {
    const text = isWanted() ? begun + piece.slice(from, at - 1) : "";
    [begun, from] = ["", at];
    return text;
  };
  for (piece of textsOf(members)) {
    from = 0;
    while (at < piece.length) {
      const pattern = isString ? inString : depth < 2 ? around : deep;
      pattern.lastIndex = at;
      const isFound = pattern.test(piece);
      at = isFound ? pattern.lastIndex : piece.length;
      const sign = isFound ? piece[at - 1] : "";
      if (sign === '"') isString = !isString;
      // The escaped character may lie in the next piece.
      else if (sign === "\\") at += 1;
      else if (sign === ":" && depth === 0) isList = take() === `"${name}"`;
      else if (sign === "," && depth === 0) take();
      else if (sign === "," && isList && depth === 1) elements.push(take());
      else if (sign === "[" || sign === "{") {
        if (depth === 0) take();
        depth += 1;
      } else if (sign === "]" || sign === "}") {
        if (isList && depth === 1) {
          const last = take();
          return last === "" && elements.length === 0 ? [] : [...elements, last];
        }
        depth -= 1;
      }
    }
    if (isWanted()) begun += piece.slice(from);
    at -= piece.length;
  }
  return undefined;
}

/** Outputs and partial outputs by index; empty for an outcome of `limit` characters or more. */
export function outputsOf({ members }: Outcome, limit: number): (string | undefined)[] {
  if (members.length >= limit) return [];
  const partial = listIn(members, "partial_outputs")?.map((text) => (text === "null" ? undefined : text));
  return listIn(members, "outputs") ?? partial ?? [];
}
