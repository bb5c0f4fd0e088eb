/** Sentences to be embedded: the same at every run, of words that real ones are made of. */
import { wholeNumbers } from "./random.ts";

const LENGTHS = { least: 5, most: 120 } as const;
/** Coprime to the number of lengths and near its golden section: neighbours differ, and every stretch has the same mixture. */
const STEP = 71;

/**
 * Of 5 to 120 words, all lengths alike often. A load that is cut off anywhere has asked for the same mixture of lengths.
 *
 * @param texts where the words are from
 */
export function sentences(texts: readonly string[], count: number): string[] {
  const words = texts.flatMap((text) => text.split(/\s+/)).filter((word) => word !== "");
  const random = wholeNumbers();
  const lengths = LENGTHS.most - LENGTHS.least + 1;
  return Array.from({ length: count }, (_, i) => {
    const length = LENGTHS.least + ((i * STEP) % lengths);
    return Array.from({ length }, () => words[random() % words.length]).join(" ");
  });
}
