/** Decoders that a model's author installs and gives to `audio()`. sconce itself decodes WAV only. */
import { Turn } from "../../base/turn.ts";
import { decodings } from "../decoding-gate.ts";
import { flacLength, withoutTail } from "./flac.ts";
import { pagesOf } from "./ogg.ts";
import { DamagedAudio, type PcmSource, textAt } from "./pcm.ts";

/** Samples that an author's decoder returns for a part of a file. */
export interface DecodedAudio {
  /** An array of samples from -1 to 1 for each channel. */
  readonly channelData: readonly Float32Array[];
  readonly sampleRate: number;
  readonly errors: readonly { readonly message: string }[];
}

/** Decodes one file. The decoders that docs/declare.md names have this interface. */
export interface AudioDecoder {
  readonly ready: Promise<unknown>;
  /** Decodes the next part of the file. A part may begin and end inside a frame or a page. */
  decode(part: Uint8Array): DecodedAudio | Promise<DecodedAudio>;
  /** Returns the remaining samples, after the last part. */
  flush?(): DecodedAudio | Promise<DecodedAudio>;
  free(): unknown;
}

/** The npm package that an error message recommends for each format. */
const formats = {
  flac: { name: "FLAC", packageName: "@wasm-audio-decoders/flac" },
  mp3: { name: "MP3", packageName: "mpg123-decoder" },
  opus: { name: "Ogg Opus", packageName: "ogg-opus-decoder" },
  vorbis: { name: "Ogg Vorbis", packageName: "@wasm-audio-decoders/ogg-vorbis" },
} as const;
const docs = "docs/declare.md#decoders";

export type AudioFormat = keyof typeof formats;

/** Functions of the author, by format. Each makes a decoder for one file. */
export type AudioDecoders = { readonly [format in AudioFormat]?: () => AudioDecoder };

/** Memory of one decoder in WebAssembly, in bytes. */
const DECODER_BYTES = 16 * 2 ** 20;
/** Bytes of a file that a decoder gets at once. */
const PART_BYTES = 1024;
/** Samples of one channel for a byte of a file, as in speech of 16 kbit/s at 48 kHz. */
const LIKELY_SAMPLES = 32;
/** Maximum bytes before the first samples, such as a picture of an album. */
const MAX_HEAD_BYTES = 8 * 2 ** 20;
const MAX_HOLD_MS = 5;

/** Thrown if the model has no decoder for the file's format. */
export class NoDecoder extends Error {
  constructor(format: AudioFormat) {
    const { name, packageName } = formats[format];
    super(`${name}, for which this model has no decoder; its author can run: npm install ${packageName} (${docs})`);
  }
}

/**
 * Reads a file with the author's decoder. The first samples give the rate and the number of channels.
 * @throws DamagedAudio, NoDecoder; errors of the decoder's constructor and of `ready` pass unchanged
 */
export async function readDecoded(bytes: Uint8Array, format: AudioFormat, decoders: AudioDecoders): Promise<PcmSource> {
  const make = decoders[format];
  if (make === undefined) throw new NoDecoder(format);
  const isNativeFlac = textAt(bytes, 0, 4) === "fLaC";
  const file = isNativeFlac ? withoutTail(bytes) : bytes;
  const total = isNativeFlac ? flacLength(bytes) : undefined;
  const first = await decodings.run(decoders, DECODER_BYTES, async () => {
    for await (const decoded of decode(make, file)) return decoded;
    throw new DamagedAudio("it has no samples");
  });
  const { sampleRate: rate, channelData } = first;
  const channels = channelData.length;
  return {
    rate,
    channels,
    length: undefined,
    likelyLength: rate + LIKELY_SAMPLES * bytes.length,
    decoderBytes: DECODER_BYTES,
    async *blocks() {
      let length = 0;
      for await (const { sampleRate, channelData: block } of decode(make, file)) {
        if (sampleRate !== rate || block.length !== channels) throw new DamagedAudio("its rate or its channels change");
        length += block[0]?.length ?? 0;
        yield block;
      }
      if (length < (total ?? 0)) throw new DamagedAudio(`it is cut off after ${length} of ${total} samples`);
    },
  };
}

/** Decodes a file part by part, so that a caller can stop a small file with too many samples. */
async function* decode(make: () => AudioDecoder, bytes: Uint8Array): AsyncGenerator<DecodedAudio> {
  const decoder = make();
  const turn = new Turn(MAX_HOLD_MS);
  let hasSamples = false;
  try {
    await decoder.ready;
    let read = 0;
    for (const part of partsOf(bytes)) {
      const decoded = await checked(() => decoder.decode(part));
      if (decoded !== undefined) yield decoded;
      hasSamples ||= decoded !== undefined;
      read += part.length;
      if (!hasSamples && read > MAX_HEAD_BYTES) throw new DamagedAudio(`its first ${read} bytes have no samples`);
      if (turn.isOver) await turn.next();
    }
    const last = await checked(() => decoder.flush?.());
    if (last !== undefined) yield last;
  } finally {
    try {
      await decoder.free();
    } catch {
      // After an error in WebAssembly, `free` may throw a second error.
    }
  }
}

/** The parts of a file that a decoder gets one after the other: of Ogg, only complete pages. */
function* partsOf(bytes: Uint8Array): Generator<Uint8Array> {
  for (const whole of textAt(bytes, 0, 4) === "OggS" ? pagesOf(bytes) : [bytes]) {
    for (let at = 0; at < whole.length; at += PART_BYTES) yield whole.subarray(at, at + PART_BYTES);
  }
}

/** Decodes a part. @returns undefined if the part has no samples @throws DamagedAudio if the decoder fails */
async function checked(
  decode: () => DecodedAudio | undefined | Promise<DecodedAudio | undefined>,
): Promise<DecodedAudio | undefined> {
  let decoded: DecodedAudio | undefined;
  try {
    decoded = await decode();
  } catch (error) {
    throw new DamagedAudio("its decoder failed", { cause: error });
  }
  const [error] = decoded?.errors ?? [];
  if (error !== undefined) throw new DamagedAudio(`its decoder reports ${JSON.stringify(error.message)}`);
  return (decoded?.channelData[0]?.length ?? 0) === 0 ? undefined : decoded;
}
