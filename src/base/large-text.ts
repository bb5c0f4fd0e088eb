/** JSON text of any size. Large texts consist of pieces, because joining megabytes would block the event loop. */

/** Shorter texts are joined into one string. */
const LARGE_LENGTH = 64 * 1024;
/** Maximum characters or bytes of a piece. */
const PIECE_LENGTH = 256 * 1024;

export type Text = string | LargeText;
type Piece = string | Uint8Array;

export class LargeText {
  /** Pieces, each in an object that longer texts with this text share, so that it is encoded to UTF-8 only once. */
  readonly #cells: readonly { piece: Piece }[];
  /** Sum over the pieces: characters of strings, bytes of binary pieces. */
  readonly length: number;

  constructor(parts: readonly (Piece | LargeText)[]) {
    this.#cells = parts.flatMap((part) => (part instanceof LargeText ? part.#cells : [...cellsOf(part)]));
    this.length = parts.reduce((sum, { length }) => sum + length, 0);
  }

  get pieces(): readonly Piece[] {
    return this.#cells.map(({ piece }) => piece);
  }

  /** A piece as UTF-8; undefined after the last piece. The first call encodes the piece and keeps the bytes. */
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

/** Makes a text of UTF-8 pieces. A string is a text already. */
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

/**
 * The JSON text `"name":[…]` of an object's member.
 * @param texts the elements of the list as JSON
 */
export function listText(name: string, texts: readonly Text[]): Text {
  const only = texts[0] ?? "";
  // Most predictions have one small output, for which this shorter path saves time.
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

/** Splits a piece into pieces of at most PIECE_LENGTH, without copying bytes. */
function* cellsOf(piece: Piece): Generator<{ piece: Piece }> {
  for (let at = 0; at < piece.length; ) {
    let end = at + PIECE_LENGTH;
    // Does not cut a character in two: the halves of a surrogate pair stay in one piece.
    if (typeof piece === "string" && isHighSurrogate(piece.charCodeAt(end - 1))) end -= 1;
    yield { piece: typeof piece === "string" ? piece.slice(at, end) : piece.subarray(at, end) };
    at = end;
  }
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code < 0xdc00;
}
