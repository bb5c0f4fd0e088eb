/** The interface of the readers of audio files, their error class, and a reader of signatures. */

/** An audio file whose header is read. `blocks` decodes the samples. */
export interface PcmSource {
  readonly rate: number;
  readonly channels: number;
  /** Number of samples of one channel; undefined if only decoding finds it. */
  readonly length: number | undefined;
  /** An estimate of an unknown length. */
  readonly likelyLength?: number;
  /** Memory of the decoder in bytes, without the samples. */
  readonly decoderBytes?: number;
  /**
   * Yields blocks with an array for each channel, with values from -1 to 1. The next block may use the same memory.
   * @throws DamagedAudio
   */
  blocks(): Iterable<readonly Float32Array[]> | AsyncIterable<readonly Float32Array[]>;
}

/** Thrown for a file that has the signature of a format, but is damaged or uses an unsupported variant. */
export class DamagedAudio extends Error {}

/** The bytes from `at` on as ASCII text; shorter than `length` at the end. */
export function textAt(bytes: Uint8Array, at: number, length: number): string {
  return String.fromCharCode(...bytes.subarray(at, at + length));
}
