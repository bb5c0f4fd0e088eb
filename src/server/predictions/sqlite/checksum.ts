/** Checksums of stored values, because neither SQLite nor most file systems detect changed bits. */

/** Characters of a checksum. Values of old releases have an empty text instead, which no changed bit can make of a checksum. */
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

/** Whether a value matches its checksum. @param sum the stored checksum; empty for a value of an old release, which counts as intact */
export function isIntact(sum: string, expected: string): boolean {
  return sum === "" || sum === expected;
}
