/** Checksums of stored values, because neither SQLite, Redis nor most file systems detect changed bits. */

/** Characters of a checksum. Values of old releases have an empty text instead. A changed bit cannot empty a checksum. */
const CHARACTERS = 9;

/** Bytes of the checksum at the end of a file. */
export const CHECKSUM_BYTES = CHARACTERS;

export class Checksum {
  #sum = 0;

  add(part: string | Uint8Array): this {
    this.#sum = Bun.hash.crc32(part, this.#sum);
    return this;
  }

  get text(): string {
    return `c${this.#sum.toString(16).padStart(CHARACTERS - 1, "0")}`;
  }
}

/** The error for a value that does not match its checksum. */
export class DamagedValue extends Error {}

export function checksumOf(...fields: readonly (string | number | null)[]): string {
  return new Checksum().add(fields.join("\n")).text;
}

/**
 * The checksum of a prediction's id and texts. With the id, it shows a changed bit that moved the texts to another id. How the texts are cut does not
 * matter.
 */
export function checksumOfTexts(id: string, texts: readonly (string | Uint8Array)[]): string {
  const checksum = new Checksum().add(id);
  for (const text of texts) checksum.add(text);
  return checksum.text;
}

/** A text with its checksum. An empty text stays empty. */
export function summed(id: string, text: string): string {
  return text === "" ? "" : `${text}.${checksumOfTexts(id, [text])}`;
}

/** @returns undefined for a text that the disk changed */
export function unsummed(id: string, text: string): string | undefined {
  const before = text.slice(0, Math.max(0, text.lastIndexOf(".")));
  return summed(id, before) === text ? before : undefined;
}

/** Whether a value matches its checksum. @param sum the stored checksum; empty for a value of an old release, which counts as intact */
export function isIntact(sum: string, expected: string): boolean {
  return sum === "" || sum === expected;
}
