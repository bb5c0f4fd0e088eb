/** Finds the elements of a list among the members of an outcome without parsing or joining these: one may be a large file. */
import { type Text, textsOf } from "./large-text.ts";
import type { Outcome } from "./record.ts";

/** What matters in a string, around names and elements, and deep in an element. */
const [inString, around, deep] = [/["\\]/g, /["[\]{},:]/g, /["[\]{}]/g];

/**
 * @param members text that `JSON.stringify` made: there are no spaces
 * @param only the index of the one element that is wanted: there is nothing in the places of the others
 * @returns the JSON text of each element; undefined where there is no such list
 */
export function listIn(members: Text, name: string, only?: number): string[] | undefined {
  const elements: string[] = [];
  let [depth, isString, isList] = [0, false, false];
  // Of a name or an element: what pieces before have of it, and where it goes on in this one.
  let [begun, from] = ["", 0];
  let [piece, at] = ["", 0];
  const isWanted = () => depth === 0 || (isList && (only ?? elements.length) === elements.length);
  /** The text before the last sign; what is behind that begins the next. */
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
      // What it escapes may be in the next piece.
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

/** What succeeded, by the index of its input; nothing where the outcome has so many characters. */
export function outputsOf({ members }: Outcome, limit: number): (string | undefined)[] {
  if (members.length >= limit) return [];
  const partial = listIn(members, "partial_outputs")?.map((text) => (text === "null" ? undefined : text));
  return listIn(members, "outputs") ?? partial ?? [];
}
