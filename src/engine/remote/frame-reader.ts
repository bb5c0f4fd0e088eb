/** Makes frames of what a socket gives, however it is cut. */

import { ALIGNMENT } from "../../author/tensor-memory.ts";
import { SconceError } from "../../base/errors.ts";
import { type FrameMemory, frameMemory, HEADER_BYTES } from "./frame.ts";

/** Takes the frame that begins `at` bytes into the memory, which may be kept. */
export type FrameHandler = (memory: FrameMemory, at: number) => void;

export class FrameReader {
  readonly #handle: FrameHandler;
  /** A frame that came in part: first its header only, then memory for the whole. */
  #partial: Uint8Array<ArrayBuffer> | undefined;
  #filled = 0;

  constructor(handle: FrameHandler) {
    this.#handle = handle;
  }

  /** @param chunk is kept, not copied, but for a frame that is cut at its end */
  push(chunk: Uint8Array): void {
    let begin = 0;
    while (this.#partial !== undefined && begin < chunk.length) begin += this.#fill(this.#partial, chunk, begin);
    if (begin === chunk.length) return;
    const rest = placed(chunk, begin);
    const memory = frameMemory(rest.buffer, rest.byteOffset, rest.length);
    let at = 0;
    while (rest.length - at >= HEADER_BYTES) {
      const bytes = lengthOf(memory.words[at / 4]);
      if (bytes > rest.length - at) break;
      this.#handle(memory, at);
      at += bytes;
    }
    if (at === rest.length) return;
    let left = at;
    this.#partial = new Uint8Array(HEADER_BYTES);
    this.#filled = 0;
    while (left < rest.length) left += this.#fill(this.#partial, rest, left);
  }

  /** @returns how many bytes it took */
  #fill(partial: Uint8Array<ArrayBuffer>, from: Uint8Array, begin: number): number {
    const end = Math.min(from.length, begin + partial.length - this.#filled);
    partial.set(from.subarray(begin, end), this.#filled);
    this.#filled += end - begin;
    if (this.#filled === partial.length) this.#filledUp(partial);
    return end - begin;
  }

  #filledUp(partial: Uint8Array<ArrayBuffer>): void {
    const memory = frameMemory(partial.buffer, 0, partial.length);
    const bytes = lengthOf(memory.words[0]);
    if (partial.length < bytes) {
      // All of it is written before it is read.
      const whole = new Uint8Array(Buffer.allocUnsafeSlow(bytes).buffer);
      whole.set(partial);
      this.#partial = whole;
    } else {
      this.#partial = undefined;
      this.#handle(memory, 0);
    }
  }
}

/** The bytes from `begin` on, where numbers of 64 bits can be read. They nearly always are: whole units are written, and rarely cut. */
function placed(chunk: Uint8Array, begin: number): Uint8Array<ArrayBuffer> {
  const { buffer, byteOffset, length } = chunk;
  if (buffer instanceof ArrayBuffer && (byteOffset + begin) % ALIGNMENT === 0) {
    return new Uint8Array(buffer, byteOffset + begin, length - begin);
  }
  return new Uint8Array(chunk.subarray(begin));
}

function lengthOf(units = 0): number {
  if (units === 0) throw new SconceError("run_failed", "the engine's socket gave no frame");
  return units * ALIGNMENT;
}
