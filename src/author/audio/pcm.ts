/** The interface of readers of audio files. */

/** A readable file: its format, and its samples block by block. */
export interface PcmSource {
  readonly rate: number;
  readonly channels: number;
  /** Samples of one channel; undefined if the file does not tell. */
  readonly length: number | undefined;
  /**
   * Yields blocks with an array for each channel, with values from -1 to 1. The next block may use the same memory.
   * @throws DamagedAudio
   */
  blocks(): Generator<readonly Float32Array[]>;
}

/** The file has the signature of its format, and cannot be read to its end. */
export class DamagedAudio extends Error {}
