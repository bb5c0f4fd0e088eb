/** Checksums of stored values, because neither SQLite, Redis nor most file systems detect changed bits. */

/** Length of a checksum in bytes and characters: the letter "c" and a CRC-32 in hexadecimal. */
export const CHECKSUM_BYTES = 9;

export class Checksum {
  #sum = 0;

  add(part: string | Uint8Array): this {
    this.#sum = Bun.hash.crc32(part, this.#sum);
    return this;
  }

  get text(): string {
    return `c${this.#sum.toString(16).padStart(CHECKSUM_BYTES - 1, "0")}`;
  }
}

/** Thrown when a stored value does not match its checksum. */
export class DamagedValue extends Error {}

export function checksumOf(...fields: readonly (string | number | null)[]): string {
  return new Checksum().add(fields.join("\n")).text;
}

/** Checksum of an id and the concatenated texts. With the id, it detects texts that are stored under a wrong id. */
export function checksumOfTexts(id: string, texts: readonly (string | Uint8Array)[]): string {
  const checksum = new Checksum().add(id);
  for (const text of texts) checksum.add(text);
  return checksum.text;
}

/** Appends a checksum to a text. An empty text stays empty. */
export function summed(id: string, text: string): string {
  return text === "" ? "" : `${text}.${checksumOfTexts(id, [text])}`;
}

/**
 * Removes the checksum that `summed` appended.
 * @returns undefined if the text does not match its checksum
 */
export function unsummed(id: string, text: string): string | undefined {
  const before = text.slice(0, Math.max(0, text.lastIndexOf(".")));
  return summed(id, before) === text ? before : undefined;
}

/**
 * Whether a value matches its checksum.
 * @param sum the stored checksum; empty for values of old releases, which are accepted unchecked
 */
export function isIntact(sum: string, expected: string): boolean {
  return sum === "" || sum === expected;
}
