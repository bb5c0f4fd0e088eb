/**
 * Escapes JSON for the data of a server-sent event. JSON may hold U+0085, U+2028 and U+2029 as they are. Some clients,
 * such as `iter_lines` of Python's HTTP libraries, end a line at these characters, and would cut the event there.
 */

const separators = /[\u0085\u2028\u2029]/g;

export function eventData(json: string): string {
  return json.replace(separators, (character) => escaped(character.charCodeAt(0)));
}

/** Like eventData(), for the pieces of a text in UTF-8. A character may begin in one piece and end in the next. */
export async function* eventDataOf(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let rest: Uint8Array = new Uint8Array();
  for await (const piece of pieces) {
    const bytes = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
    const end = bytes.length - incompleteAt(bytes);
    rest = bytes.subarray(end);
    yield withoutSeparators(bytes.subarray(0, end));
  }
  if (rest.length > 0) yield rest;
}

/** Number of last bytes that may be the begin of a separator: C2 85, E2 80 A8 or E2 80 A9. */
function incompleteAt(bytes: Uint8Array): number {
  const [before, last] = [bytes.at(-2), bytes.at(-1)];
  if (last === 0xc2 || last === 0xe2) return 1;
  return before === 0xe2 && last === 0x80 ? 2 : 0;
}

/** Replaces separators as bytes, one character a byte: a piece may begin or end within another character. */
function withoutSeparators(bytes: Uint8Array): Uint8Array {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1");
  const replaced = text
    .replaceAll("\u00c2\u0085", escaped(0x85))
    .replaceAll("\u00e2\u0080\u00a8", escaped(0x2028))
    .replaceAll("\u00e2\u0080\u00a9", escaped(0x2029));
  return replaced.length === text.length ? bytes : Buffer.from(replaced, "latin1");
}

function escaped(code: number): string {
  return `\\u${code.toString(16).padStart(4, "0")}`;
}
