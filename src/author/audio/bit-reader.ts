/** Reads bits of a file, most significant first. */
import { DamagedAudio } from "./pcm.ts";

export class BitReader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at >= 8 * this.#bytes.length;
  }

  get byte(): number {
    return (this.#at + 7) >>> 3;
  }

  set byte(byte: number) {
    this.#at = 8 * byte;
  }

  /**
   * Reads an unsigned number.
   * @param bits 0 to 32
   */
  read(bits: number): number {
    if (bits > 24) return this.read(bits - 16) * 2 ** 16 + this.read(16);
    if (bits === 0) return 0;
    const value = (this.#word() << (this.#at & 7)) >>> (32 - bits);
    this.#skip(bits);
    return value;
  }

  readSigned(bits: number): number {
    const value = this.read(bits);
    return bits > 0 && value >= 2 ** (bits - 1) ? value - 2 ** bits : value;
  }

  /** Reads a unary number: the count of 0 bits before the next 1 bit. */
  readUnary(): number {
    for (let zeros = 0; ; ) {
      const left = 32 - (this.#at & 7);
      const found = Math.clz32(this.#word() << (this.#at & 7));
      if (found < left) {
        this.#skip(found + 1);
        return zeros + found;
      }
      zeros += left;
      this.#skip(left);
    }
  }

  #word(): number {
    const [at, bytes] = [this.#at >>> 3, this.#bytes];
    return ((bytes[at] ?? 0) << 24) | ((bytes[at + 1] ?? 0) << 16) | ((bytes[at + 2] ?? 0) << 8) | (bytes[at + 3] ?? 0);
  }

  #skip(bits: number): void {
    this.#at += bits;
    if (this.#at > 8 * this.#bytes.length) throw new DamagedAudio("it is cut off");
  }
}
