/** Finds where a text stops being JSON. The parser of the runtime gives no position. */

import { MAX_LEVELS } from "./nesting.ts";

const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const word = /true|false|null/y;
const escaped = /\\(?:["\\/bfnrt]|u[\dA-Fa-f]{4})/y;

const NEWLINE = 0x0a;

/**
 * @param bytes UTF-8 that the parser refused
 * @returns `line 1, column 12`, both from 1; a superfluous comma is the place of its fault
 */
export function faultPlace(bytes: Uint8Array): string {
  // JSON's syntax is ASCII, so each byte may stand for a character.
  const at = faultAt(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1"));
  let line = 1;
  let begin = 0;
  for (let next = bytes.indexOf(NEWLINE); next >= 0 && next < at; next = bytes.indexOf(NEWLINE, begin)) {
    line += 1;
    begin = next + 1;
  }
  return `line ${line}, column ${new TextDecoder().decode(bytes.subarray(begin, at)).length + 1}`;
}

function faultAt(text: string): number {
  const open: ("[" | "{")[] = [];
  let comma = -1;
  let isFresh = false;
  for (let at = spaceEnd(text, 0); ; ) {
    const inside = open.at(-1);
    const char = text[at] ?? "";
    const isClosed = (char === "]" && inside === "[") || (char === "}" && inside === "{");
    if (isClosed && comma >= 0) return comma;
    const isEmpty = isClosed && isFresh;
    if (!isEmpty && inside === "{") {
      const end = textEnd(text, at);
      if (end < 0) return -end - 1;
      const colon = spaceEnd(text, end);
      if (text[colon] !== ":") return colon;
      at = spaceEnd(text, colon + 1);
    }
    comma = -1;
    isFresh = false;
    const first = text[at] ?? "";
    if (!isEmpty && (first === "[" || first === "{")) {
      // Deeper bodies are refused for their levels, and the list of open brackets stays short.
      if (open.push(first) > MAX_LEVELS) return at;
      isFresh = true;
      at = spaceEnd(text, at + 1);
      continue;
    }
    if (!isEmpty) {
      const end = first === '"' ? textEnd(text, at) : Math.max(matchEnd(number, text, at), matchEnd(word, text, at));
      if (end < 0) return first === '"' ? -end - 1 : at;
      at = spaceEnd(text, end);
    }
    // Behind a value: its list or object goes on or ends.
    for (;;) {
      const bracket = open.at(-1);
      if (bracket === undefined) return at;
      if (text[at] === ",") {
        comma = at;
        at = spaceEnd(text, at + 1);
        break;
      }
      if (text[at] !== (bracket === "[" ? "]" : "}")) return at;
      open.pop();
      at = spaceEnd(text, at + 1);
    }
  }
}

/** Behind a text; `-at - 1` for a fault at `at`. */
function textEnd(text: string, quote: number): number {
  if (text[quote] !== '"') return -quote - 1;
  for (let at = quote + 1; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 0x22) return at + 1;
    if (code < 0x20) return -at - 1;
    if (code !== 0x5c) continue;
    const end = matchEnd(escaped, text, at);
    if (end < 0) return -at - 1;
    at = end - 1;
  }
  return -text.length - 1;
}

function matchEnd(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : -1;
}

function spaceEnd(text: string, from: number): number {
  let at = from;
  while (at < text.length && "\t\n\r ".includes(text.charAt(at))) at += 1;
  return at;
}
