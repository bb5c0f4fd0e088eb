/** Converts a text to ids of word pieces, as the original tokenizer does. */
import { Tokenizer } from "@huggingface/tokenizers";
import { z } from "sconce";

/** The part of `tokenizer.json` that this file reads. The tokenizer library reads the whole file. */
const file = z.looseObject({ truncation: z.looseObject({ max_length: z.int().min(3) }) });

/** A text may be cut before each of these characters: no word piece contains one together with its left neighbour. */
const cut = /[\s,.;:!?\u3400-\u4DBF\u4E00-\u9FFF]/g;
/**
 * Number of characters after which a text is cut, at the next possible place. The parts are tokenized one by one until
 * there are enough pieces.
 */
const partLength = 2048;
/** Maximum number of characters that are read, even if the text gives few pieces. */
const maxLength = 100_000;

export class WordPieces {
  readonly #tokenizer: Tokenizer;
  readonly #begin: number;
  readonly #end: number;
  readonly #max: number;

  constructor(tokenizerJson: unknown) {
    const parsed = file.parse(tokenizerJson);
    this.#tokenizer = new Tokenizer(parsed, {});
    this.#max = parsed.truncation.max_length;
    // The empty text has two pieces: the begin piece and the end piece.
    const [begin, end] = this.#tokenizer.encode("").ids;
    if (begin === undefined || end === undefined) throw new Error("tokenizer.json sets no pieces round a text");
    this.#begin = begin;
    this.#end = end;
  }

  /** Ids of a text's word pieces between the begin id and the end id, at most `max_length` ids in all. */
  of(text: string): number[] {
    const ids = [this.#begin];
    const length = Math.min(text.length, maxLength);
    for (let at = 0; at < length && ids.length < this.#max; ) {
      const next = Math.min(nextCut(text, at + partLength), length);
      const part = likeTheOriginal(text.slice(at, next));
      ids.push(...this.#tokenizer.encode(part, { add_special_tokens: false }).ids);
      at = next;
    }
    return [...ids.slice(0, this.#max - 1), this.#end];
  }
}

function nextCut(text: string, from: number): number {
  cut.lastIndex = from;
  return cut.exec(text)?.index ?? text.length;
}

/**
 * For tokenizers of BERT: changes a text so that the library gives the pieces of the original tokenizer. The library lowercases a final sigma
 * differently, and does not separate Chinese characters of the supplementary planes.
 */
export function likeTheOriginal(text: string): string {
  return text
    .replaceAll("Σ", "σ")
    .replace(
      /[\u{20000}-\u{2A6DF}\u{2A700}-\u{2B73F}\u{2B740}-\u{2B81F}\u{2B920}-\u{2CEAF}\u{2F800}-\u{2FA1F}]/gu,
      " $& ",
    );
}
