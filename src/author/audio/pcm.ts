/** The interface of readers of audio files. */

/** A readable file: its format, and its samples block by block. */
export interface PcmSource {
  readonly rate: number;
  readonly channels: number;
  /** Fewest samples of one channel, known before decoding. */
  readonly minLength: number;
  /** Most samples of one channel; undefined if the file does not tell. */
  readonly maxLength: number | undefined;
  /** Memory of a decoder, without the samples. */
  readonly decoderBytes?: number;
  /**
   * Yields blocks with an array for each channel, with values from -1 to 1. The next block may use the same memory.
   * @throws DamagedAudio
   */
  blocks(): Iterable<readonly Float32Array[]> | AsyncIterable<readonly Float32Array[]>;
}

/** The file has the signature of its format, and cannot be read to its end. */
export class DamagedAudio extends Error {}

/** The first bytes as ASCII text. */
export function textAt(bytes: Uint8Array, at: number, length: number): string {
  return String.fromCharCode(...bytes.subarray(at, at + length));
}
