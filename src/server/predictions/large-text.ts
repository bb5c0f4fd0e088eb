/** JSON text of any size. A large text is stored in pieces, because joining or encoding megabytes at once would block the event loop. */

import type { ModelVersion } from "./model-version.ts";

/** Texts of at least this many characters stay in pieces. */
const LARGE_LENGTH = 64 * 1024;
/** Maximum characters or bytes of a piece. */
const PIECE_LENGTH = 256 * 1024;

export type Text = string | LargeText;
type Piece = string | Uint8Array;

export class LargeText {
  /** The pieces. Longer texts that contain this text share these objects, so that a piece is encoded once for all. */
  readonly #cells: readonly { piece: Piece }[];
  /** Characters of string pieces, bytes of binary pieces. */
  readonly length: number;
  /** The version of the model that ran the prediction, if this text is a prediction's JSON. The header `X-Model` shows it. */
  model: ModelVersion | undefined;
  /** The status of the prediction, if this text is a prediction's JSON. The access log has it. */
  status: "success" | "failed" | undefined;

  constructor(parts: readonly (Piece | LargeText)[]) {
    this.#cells = parts.flatMap((part) => (part instanceof LargeText ? part.#cells : [...cellsOf(part)]));
    this.length = parts.reduce((sum, { length }) => sum + length, 0);
  }

  get pieces(): readonly Piece[] {
    return this.#cells.map(({ piece }) => piece);
  }

  /** The UTF-8 bytes of a piece, encoded once for all readers; undefined after the last piece. */
  bytes(index: number): Uint8Array | undefined {
    const cell = this.#cells[index];
    if (typeof cell?.piece !== "string") return cell?.piece;
    const bytes = new TextEncoder().encode(cell.piece);
    cell.piece = bytes;
    return bytes;
  }

  toString(): string {
    return [...textsOf(this)].join("");
  }
}

/** @param made a string, or UTF-8 bytes in pieces */
export function textOf(made: string | readonly Uint8Array[]): Text {
  return typeof made === "string" ? made : new LargeText(made);
}

export function joined(texts: readonly Text[], between = ""): Text {
  const length = texts.reduce((sum, text) => sum + text.length, 0);
  if (length < LARGE_LENGTH) return texts.join(between);
  const parts: Text[] = [];
  let small = "";
  let before = "";
  for (const text of texts) {
    small += before;
    before = between;
    const isSmall = typeof text === "string" && text.length < LARGE_LENGTH;
    if (isSmall) small += text;
    if (isSmall && small.length < LARGE_LENGTH) continue;
    parts.push(small);
    small = "";
    if (!isSmall) parts.push(text);
  }
  return new LargeText([...parts, small]);
}

/** A member of a JSON object: the name, and a list of values that are JSON texts. */
export function listText(name: string, texts: readonly Text[]): Text {
  const only = texts[0] ?? "";
  // Most predictions have one small output, which needs no list of pieces.
  if (texts.length === 1 && typeof only === "string" && only.length < LARGE_LENGTH) return `"${name}":[${only}]`;
  return joined([`"${name}":[`, joined(texts, ","), "]"]);
}

export function piecesOf(text: Text): readonly Piece[] {
  return typeof text === "string" ? [text] : text.pieces;
}

/** The pieces as strings. Each piece is decoded when the caller reaches it. */
export function* textsOf(text: Text): Generator<string> {
  // A piece may end within the bytes of a character, so one decoder reads all pieces.
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  for (const piece of piecesOf(text)) {
    yield typeof piece === "string" ? piece : decoder.decode(piece, { stream: true });
  }
}

/** Length of the text in UTF-8 bytes. */
export function byteLengthOf(text: Text): number {
  if (typeof text === "string") return Buffer.byteLength(text);
  return text.pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0);
}

/** Cuts a piece into smaller pieces, without copying bytes. */
function* cellsOf(piece: Piece): Generator<{ piece: Piece }> {
  for (let at = 0; at < piece.length; ) {
    let end = at + PIECE_LENGTH;
    // Keeps the two halves of a surrogate pair in one piece.
    if (typeof piece === "string" && isHighSurrogate(piece.charCodeAt(end - 1))) end -= 1;
    yield { piece: typeof piece === "string" ? piece.slice(at, end) : piece.subarray(at, end) };
    at = end;
  }
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code < 0xdc00;
}
