/** Checksums of stored values. Neither SQLite nor most file systems notice when a disk changes bits. */

/** Length of a checksum. Values of earlier releases have an empty text instead; a flipped bit cannot turn this length into 0. */
const CHARACTERS = 9;

/** Length of the checksum at the end of a file. */
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

/** The disk changed a value. */
export class DamagedValue extends Error {}

export function checksumOf(...fields: readonly (string | number | null)[]): string {
  return new Checksum().add(fields.join("\n")).text;
}

/** @param sum empty for a value of an earlier release */
export function isIntact(sum: string, expected: string): boolean {
  return sum === "" || sum === expected;
}
