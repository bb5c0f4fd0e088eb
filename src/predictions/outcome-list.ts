/** Finds the elements of a list among the members of an outcome without parsing them: one may be a large file. */

/** @returns the JSON text of each element; undefined where there is no such list */
export function listIn(members: string, name: string): string[] | undefined {
  for (let at = 0; at < members.length; ) {
    const colon = endOfText(members, at);
    const end = endOfValue(members, colon + 1);
    if (members.slice(at, colon) === `"${name}"`) return elementsOf(members, colon + 1);
    at = end + 1;
  }
  return undefined;
}

/** @param from the place of its opening bracket, in text that `JSON.stringify` made: there are no spaces */
function elementsOf(text: string, from: number): string[] {
  const elements: string[] = [];
  let at = from + 1;
  while (at < text.length && text[at] !== "]") {
    const end = endOfValue(text, at);
    elements.push(text.slice(at, end));
    at = text[end] === "," ? end + 1 : end;
  }
  return elements;
}

/** The place behind the value that begins there. */
function endOfValue(text: string, from: number): number {
  const first = text[from];
  if (first === '"') return endOfText(text, from);
  if (first !== "[" && first !== "{") return placeOf(/[,\]}]/g, text, from);
  let depth = 0;
  for (let at = from; at < text.length; ) {
    const character = text[at];
    if (character === '"') at = endOfText(text, at);
    else {
      depth += character === "[" || character === "{" ? 1 : -1;
      at += 1;
    }
    if (depth === 0) return at;
    at = placeOf(/["[\]{}]/g, text, at);
  }
  return text.length;
}

/** The place behind the closing quote. */
function endOfText(text: string, from: number): number {
  for (let at = text.indexOf('"', from + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let first = at;
    while (text[first - 1] === "\\") first -= 1;
    if ((at - first) % 2 === 0) return at + 1;
  }
  return text.length;
}

function placeOf(pattern: RegExp, text: string, from: number): number {
  pattern.lastIndex = from;
  return pattern.exec(text)?.index ?? text.length;
}
