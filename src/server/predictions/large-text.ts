/** JSON text that may be megabytes: kept and sent in pieces, as joining and encoding it at once would hold up everybody. */

/** Longer texts are in pieces. */
const LARGE_LENGTH = 64 * 1024;
/** Encoded, written and sent at a time. */
const PIECE_LENGTH = 256 * 1024;

export type Text = string | LargeText;
type Piece = string | Uint8Array;

export class LargeText {
  /** Shared with the texts that this one is a part of. */
  readonly #cells: readonly { piece: Piece }[];
  /** In characters, or in bytes where it was read as such. */
  readonly length: number;

  constructor(parts: readonly (Piece | LargeText)[]) {
    this.#cells = parts.flatMap((part) => (part instanceof LargeText ? part.#cells : [...cellsOf(part)]));
    this.length = parts.reduce((sum, { length }) => sum + length, 0);
  }

  get pieces(): readonly Piece[] {
    return this.#cells.map(({ piece }) => piece);
  }

  /** The bytes of a piece, for good: all who read it share one copy. Undefined after the last. */
  bytes(index: number): Uint8Array | undefined {
    const cell = this.#cells[index];
    if (typeof cell?.piece !== "string") return cell?.piece;
    const bytes = new TextEncoder().encode(cell.piece);
    cell.piece = bytes;
    return bytes;
  }

  /** A copy of the whole. */
  toString(): string {
    return [...textsOf(this)].join("");
  }
}

/** @param made a text, or its UTF-8 in pieces */
export function textOf(made: string | readonly Uint8Array[]): Text {
  return typeof made === "string" ? made : new LargeText(made);
}

/** Texts one after the other. */
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

/** A member of an object: a list of JSON texts. */
export function listText(name: string, texts: readonly Text[]): Text {
  const only = texts[0] ?? "";
  // As nearly all are.
  if (texts.length === 1 && typeof only === "string" && only.length < LARGE_LENGTH) return `"${name}":[${only}]`;
  return joined([`"${name}":[`, joined(texts, ","), "]"]);
}

export function piecesOf(text: Text): readonly Piece[] {
  return typeof text === "string" ? [text] : text.pieces;
}

/** The pieces as strings, each made when it is asked for. */
export function* textsOf(text: Text): Generator<string> {
  // Bytes are cut anywhere, but not where text begins.
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  for (const piece of piecesOf(text)) {
    yield typeof piece === "string" ? piece : decoder.decode(piece, { stream: true });
  }
}

/** Of its UTF-8. */
export function byteLengthOf(text: Text): number {
  if (typeof text === "string") return Buffer.byteLength(text);
  return text.pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0);
}

/** Cuts a large piece; its parts share its memory. */
function* cellsOf(piece: Piece): Generator<{ piece: Piece }> {
  for (let at = 0; at < piece.length; ) {
    let end = at + PIECE_LENGTH;
    // Between the two halves of a character there is no end.
    if (typeof piece === "string" && isHighSurrogate(piece.charCodeAt(end - 1))) end -= 1;
    yield { piece: typeof piece === "string" ? piece.slice(at, end) : piece.subarray(at, end) };
    at = end;
  }
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code < 0xdc00;
}
