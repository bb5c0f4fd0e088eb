/** Finds a list in the JSON of an outcome. Scans the text without parsing it, because it may contain large files. */
import { type Text, textsOf } from "./large-text.ts";
import type { Outcome } from "./record.ts";

/** Characters at which the scan stops: in a string, at nesting depth 0 and 1, and deeper. */
const [inString, around, deep] = [/["\\]/g, /["[\]{},:]/g, /["[\]{}]/g];

/**
 * The elements of the list `name`, as JSON.
 * @param members JSON members without spaces, as JSON.stringify() writes them
 * @returns undefined if there is no such list
 */
export function listIn(members: Text, name: string): string[] | undefined {
  const elements: string[] = [];
  let [depth, isString, isList] = [0, false, false];
  // The current member name or list element: `started` has its text from earlier pieces, `from` is its start in this
  // piece.
  let [started, from] = ["", 0];
  let [piece, at] = ["", 0];
  const isWanted = () => depth === 0 || isList;
  /** Ends the current member name or list element and returns it; "" outside the list. */
  const take = () => {
    const text = isWanted() ? started + piece.slice(from, at - 1) : "";
    [started, from] = ["", at];
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
      // Skips the escaped character, which may lie in the next piece.
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
    if (isWanted()) started += piece.slice(from);
    at -= piece.length;
  }
  return undefined;
}

/** Outputs by index; undefined for failed inputs. Empty if the outcome has `limit` or more characters. */
export function outputsOf({ members }: Outcome, limit: number): (string | undefined)[] {
  if (members.length >= limit) return [];
  const partial = listIn(members, "partial_outputs")?.map((text) => (text === "null" ? undefined : text));
  return listIn(members, "outputs") ?? partial ?? [];
}
