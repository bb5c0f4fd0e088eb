/** Decoders that a model's author installs and gives to `audio()`. sconce itself has none for MP3 and Vorbis. */
import { DamagedAudio } from "./pcm.ts";

/** Samples that an author's decoder returns for a part of a file. */
export interface DecodedAudio {
  /** An array of samples from -1 to 1 for each channel. */
  readonly channelData: readonly Float32Array[];
  readonly sampleRate: number;
  readonly errors: readonly { readonly message: string }[];
}

/** Decodes one file. The classes of `mpg123-decoder` and `@wasm-audio-decoders/ogg-vorbis` have this interface. */
export interface AudioDecoder {
  readonly ready: Promise<unknown>;
  /** Decodes a part of the file. @param part whole frames of MP3, or whole pages of Ogg, in the order of the file */
  decode(part: Uint8Array): DecodedAudio | Promise<DecodedAudio>;
  /** Returns the remaining samples, after the last part. */
  flush?(): DecodedAudio | Promise<DecodedAudio>;
  free(): unknown;
}

/** Functions of the author, by format. Each makes a decoder for one file. */
export interface AudioDecoders {
  /** Decoder for MP3, e.g. `() => new MPEGDecoder()` of `mpg123-decoder`. */
  readonly mp3?: () => AudioDecoder;
  /** Decoder for Ogg Vorbis, e.g. `() => new OggVorbisDecoder()` of `@wasm-audio-decoders/ogg-vorbis`. */
  readonly vorbis?: () => AudioDecoder;
}

/** The npm package that an error message recommends for each format. */
const formats = {
  mp3: { name: "MP3", packageName: "mpg123-decoder" },
  vorbis: { name: "Ogg Vorbis", packageName: "@wasm-audio-decoders/ogg-vorbis" },
} as const;
const docs = "docs/declare.md#mp3-and-ogg-vorbis";

/** Memory of one decoder in WebAssembly, in bytes. */
export const DECODER_BYTES = 16 * 2 ** 20;

/** Thrown if the model has no decoder for the file's format. */
export class NoDecoder extends Error {
  constructor(format: keyof AudioDecoders) {
    const { name, packageName } = formats[format];
    super(`${name}, for which this model has no decoder; its author can install ${packageName} (${docs})`);
  }
}

export function decoderOf(decoders: AudioDecoders, format: keyof AudioDecoders): () => AudioDecoder {
  const make = decoders[format];
  if (make === undefined) throw new NoDecoder(format);
  return make;
}

/**
 * Decodes a file part by part, so that a caller can stop a small file with too many samples.
 * @throws DamagedAudio if the decoder fails; errors of `make` and `ready` pass unchanged
 */
export async function* decodeParts(
  make: () => AudioDecoder,
  parts: Iterable<Uint8Array>,
  format: { readonly rate: number; readonly channels: number },
): AsyncGenerator<readonly Float32Array[]> {
  const decoder = make();
  try {
    await decoder.ready;
    for (const part of parts) yield blockOf(await attempt(() => decoder.decode(part)), format);
    if (decoder.flush !== undefined) yield blockOf(await attempt(() => decoder.flush?.()), format);
  } finally {
    // After an error in WebAssembly, `free` may throw a second error, which is dropped.
    await attempt(() => decoder.free()).catch(() => {});
  }
}

export async function attempt<T>(decode: () => T | Promise<T>): Promise<T> {
  try {
    return await decode();
  } catch (error) {
    throw new DamagedAudio("its decoder failed", { cause: error });
  }
}

function blockOf(
  decoded: DecodedAudio | undefined,
  { rate, channels }: { readonly rate: number; readonly channels: number },
): readonly Float32Array[] {
  if (decoded === undefined) return [];
  const [error] = decoded.errors;
  if (error !== undefined) throw new DamagedAudio(`its decoder reports ${JSON.stringify(error.message)}`);
  // MP3 decoders may return a mono file as two equal channels.
  const block = decoded.channelData.slice(0, channels);
  if ((block[0]?.length ?? 0) === 0) return [];
  if (decoded.sampleRate !== rate || block.length < channels) {
    throw new DamagedAudio("its rate or its channels change");
  }
  return block;
}
