/** A text to the numbers of its word pieces, as the original tokenizer gives them. */
import { Tokenizer } from "@huggingface/tokenizers";
import { z } from "sconce";

/** What is read of `tokenizer.json` here; the library takes the whole. */
const file = z.looseObject({ truncation: z.looseObject({ max_length: z.int().min(3) }) });

/** Where a text may be cut without changing a piece: the normalizer sets these apart from what stands beside them. */
const cut = /[\s,.;:!?\u3400-\u4DBF\u4E00-\u9FFF]/g;
/** A text is read in parts of about this length, until there are pieces enough. */
const partLength = 2048;
/** No more is read of any text. Words that reach further (or text without pieces) are longer than the tokenizer's own limit for words. */
const maxLength = 100_000;

export class WordPieces {
  readonly #tokenizer: Tokenizer;
  readonly #begin: number;
  readonly #end: number;
  readonly #max: number;

  /** @param json the content of `tokenizer.json` */
  constructor(json: unknown) {
    const parsed = file.parse(json);
    this.#tokenizer = new Tokenizer(parsed, {});
    this.#max = parsed.truncation.max_length;
    // The empty text has only the pieces that stand round every text.
    const [begin, end] = this.#tokenizer.encode("").ids;
    if (begin === undefined || end === undefined) throw new Error("tokenizer.json sets no pieces round a text");
    this.#begin = begin;
    this.#end = end;
  }

  /** The first pieces of a text, between one that begins and one that ends it: 2 of the empty text, at most `max_length`. */
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
 * Does beforehand what the library does otherwise than the original: its lower case makes a sigma at the end of a word another
 * letter, and it does not set Chinese characters of the supplementary planes apart.
 */
function likeTheOriginal(text: string): string {
  return text
    .replaceAll("Σ", "σ")
    .replace(
      /[\u{20000}-\u{2A6DF}\u{2A700}-\u{2B73F}\u{2B740}-\u{2B81F}\u{2B920}-\u{2CEAF}\u{2F800}-\u{2FA1F}]/gu,
      " $& ",
    );
}
