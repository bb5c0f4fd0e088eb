/** Converts a text to numbers of word pieces, as the original tokenizer does. */
import { Tokenizer } from "@huggingface/tokenizers";
import { z } from "sconce";

/** Only this part of `tokenizer.json` is read here; the library reads the whole. */
const file = z.looseObject({ truncation: z.looseObject({ max_length: z.int().min(3) }) });

/**
 * Characters at which a text may be cut without changing a piece: the normalizer separates them from their neighbours.
 */
const cut = /[\s,.;:!?\u3400-\u4DBF\u4E00-\u9FFF]/g;
/** Texts are tokenized in parts of about this length until enough pieces are found. */
const partLength = 2048;
/** Longest read part of a text. A longer word, or text without pieces, exceeds the tokenizer's own limit for words. */
const maxLength = 100_000;

export class WordPieces {
  readonly #tokenizer: Tokenizer;
  readonly #begin: number;
  readonly #end: number;
  readonly #max: number;

  /** @param json content of `tokenizer.json` */
  constructor(json: unknown) {
    const parsed = file.parse(json);
    this.#tokenizer = new Tokenizer(parsed, {});
    this.#max = parsed.truncation.max_length;
    // The empty text gives only the begin piece and the end piece.
    const [begin, end] = this.#tokenizer.encode("").ids;
    if (begin === undefined || end === undefined) throw new Error("tokenizer.json sets no pieces round a text");
    this.#begin = begin;
    this.#end = end;
  }

  /** Ids of the first pieces of a text, between a begin id and an end id. The empty text gives 2 ids, a long text `max_length`. */
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
 * Corrects two differences between the library and the original: the library lowercases a final sigma differently, and
 * does not separate Chinese characters of the supplementary planes.
 */
function likeTheOriginal(text: string): string {
  return text
    .replaceAll("Σ", "σ")
    .replace(
      /[\u{20000}-\u{2A6DF}\u{2A700}-\u{2B73F}\u{2B740}-\u{2B81F}\u{2B920}-\u{2CEAF}\u{2F800}-\u{2FA1F}]/gu,
      " $& ",
    );
}
