/** The class `Audio` for model code: decodes audio files to samples, and encodes samples as WAV files. */
import * as z from "zod";
import { SconceError } from "../../base/errors.ts";
import { Turn } from "../../base/turn.ts";
import { decodings } from "../decoding-gate.ts";
import { type FileContent, ModelFile, type RemoteFile } from "../file.ts";
import { audioFormats } from "../file-description.ts";
import { anything, checkOptions, oneOf, optionsOf } from "../options.ts";
import { TooManyRecords } from "../records.ts";
import { type AudioDecoders, NoDecoder } from "./decoder.ts";
import { readAudio } from "./formats.ts";
import { DamagedAudio, type PcmSource } from "./pcm.ts";
import { Resampler, resampledLength } from "./resample.ts";
import { encodings, writeWav } from "./wav.ts";

export interface SampleOptions {
  /**
   * Sample rate of the result in Hz. Resampling matches torchaudio's `transforms.Resample`. Default: the file's rate.
   */
  readonly rate?: number;
  /**
   * Number of channels of the result. 1 is the mean of all channels. 2 repeats the channel of a mono file, or takes the
   * first two of more channels. Default: the file's number of channels.
   */
  readonly channels?: number;
}

export interface Samples {
  /** Values from -1 to 1, one channel after the other: `channels * length` values. */
  readonly data: Float32Array<ArrayBuffer>;
  readonly rate: number;
  readonly channels: number;
  /** Number of samples of one channel. */
  readonly length: number;
}

interface Wanted {
  readonly rate: number;
  readonly channels: number;
  /** Maximum samples of one channel before resampling. */
  readonly maxLength: number;
  /** Whether the file may have more samples than `maxLength`. */
  readonly isEstimate: boolean;
}

export interface WavEncoding {
  /** Format of the samples. Default: `pcm16`, which clips values beyond -1 and 1. */
  readonly encoding?: (typeof encodings)[number];
}

const sampleOptions = optionsOf({ rate: anything, channels: anything });
const wavOptions = optionsOf({ encoding: oneOf(encodings) });
/** Accepts the result of `samples()`, too, which has a `length`. */
const rawSamples = optionsOf({
  data: z.instanceof(Float32Array, { error: "give a Float32Array" }),
  rate: anything,
  channels: anything,
  length: anything,
});
const MAX_CHANNELS = 8;
const MAX_RATE_HZ = 768_000;
/** Limit of the memory for decoding one file to samples, in bytes. */
const MAX_SAMPLE_BYTES = 512 * 2 ** 20;
const MAX_HOLD_MS = 5;

/**
 * An audio file. WAV is built in; FLAC, MP3, Ogg Vorbis and Ogg Opus need a decoder that the author passes. The content
 * decides the format, not the media type.
 */
export class Audio extends ModelFile {
  readonly #decoders: AudioDecoders;

  constructor(source: FileContent | RemoteFile, { decoders = {} }: { readonly decoders?: AudioDecoders } = {}) {
    super(source);
    this.#decoders = decoders;
  }

  /**
   * Decodes, mixes and resamples on the event loop, and lets other requests run every few milliseconds.
   * @throws SconceError `file_too_large` above the field's `maxSeconds` or the memory limit; `file_invalid` for a
   * damaged file or an unsupported format; `tensor_invalid` for a wrong option
   */
  async samples(options: SampleOptions = {}): Promise<Samples> {
    checkOptions("samples()", sampleOptions, options, "tensor_invalid");
    const source = await this.#source();
    const { rate = source.rate, channels = source.channels } = options;
    if (!isCount(rate, MAX_RATE_HZ)) throw wrongCall(`rate is ${rate}; give a whole number up to ${MAX_RATE_HZ}`);
    if (!isCount(channels, MAX_CHANNELS) || (channels > 2 && channels !== source.channels)) {
      throw wrongCall(`channels is ${channels}; give 1 or 2`);
    }
    const most = this.#maxLength(source);
    // A file of unknown length is decoded again with more memory if it has more samples than estimated.
    for (let maxLength = Math.min(most, source.likelyLength ?? most); ; maxLength = Math.min(most, 4 * maxLength)) {
      const samples = await this.#decoded(source, { rate, channels, maxLength, isEstimate: maxLength < most });
      if (samples !== undefined) return samples;
    }
  }

  /**
   * Encodes samples as a WAV file, for an output. `data` has values from -1 to 1, one channel after the other.
   * @throws SconceError `tensor_invalid` if `data` is not a multiple of `channels`, or `rate` or `channels` is out of
   * range
   */
  static fromSamples(
    samples: { readonly data: Float32Array; readonly rate: number; readonly channels?: number },
    options: WavEncoding = {},
  ): Audio {
    checkOptions("Audio.fromSamples", rawSamples, samples, "tensor_invalid");
    checkOptions("Audio.fromSamples", wavOptions, options, "tensor_invalid");
    const { data, rate, channels = 1 } = samples;
    const { encoding = "pcm16" } = options;
    if (!isCount(rate, MAX_RATE_HZ) || !isCount(channels, MAX_CHANNELS) || data.length % channels !== 0) {
      const message = `Audio.fromSamples: ${data.length} values are no ${channels} channels at the rate ${rate}`;
      throw new SconceError("tensor_invalid", message);
    }
    return new Audio({ bytes: writeWav(data, { rate, channels, encoding }), mediaType: "audio/wav" });
  }

  async #source(): Promise<PcmSource> {
    const source = await this.#read();
    if (source === undefined) {
      const fault = this.bytes.length === 0 ? "is empty and" : "is";
      const formats = audioFormats(this.#decoders);
      throw new SconceError("file_invalid", `${this.label} ${fault} not audio that can be read; send ${formats}`);
    }
    const { rate, channels } = source;
    if (isCount(rate, MAX_RATE_HZ) && isCount(channels, MAX_CHANNELS)) return source;
    throw this.#tooLarge(`has ${channels} channels at ${rate} Hz; at most ${MAX_CHANNELS} and ${MAX_RATE_HZ} are read`);
  }

  /**
   * Maximum samples of one channel that the file and the field's `maxSeconds` allow. @throws SconceError `file_too_large`
   */
  #maxLength({ rate, length }: PcmSource): number {
    const { maxSeconds } = this.limits;
    const most = Math.floor(maxSeconds * rate);
    if (length === undefined) return most;
    if (length <= most) return length;
    throw this.#tooLarge(`has ${(length / rate).toFixed(1)} seconds; this field takes at most ${maxSeconds}`);
  }

  /** Decodes, mixes and resamples. @returns undefined if the file has more samples than an estimate */
  async #decoded(source: PcmSource, wanted: Wanted): Promise<Samples | undefined> {
    const { rate, channels, maxLength } = wanted;
    const rates = { from: source.rate, to: rate };
    // Samples of a file of unknown length are copied into a shorter array in the end.
    const copies = source.length === undefined ? 2 : 1;
    const resampler = rate === source.rate ? undefined : new Resampler(rates);
    const resampled = resampler === undefined ? 0 : resampledLength(maxLength, rates);
    const filterBytes = resampler?.filterBytes(resampled) ?? 0;
    const bytes = 4 * channels * (copies * maxLength + resampled) + filterBytes + (source.decoderBytes ?? 0);
    const maxBytes = Math.min(MAX_SAMPLE_BYTES, decodings.maxTaskBytes);
    if (bytes > maxBytes)
      throw this.#tooLarge(`takes ${bytes} bytes of memory as samples; this server has ${maxBytes}`);
    const askedMs = performance.now();
    const decode = async () => {
      this.waited(performance.now() - askedMs);
      const mixed = await this.#mixed(source, wanted);
      if (mixed === undefined || resampler === undefined) return mixed;
      const length = resampledLength(mixed.length, rates);
      const data = new Float32Array(channels * length);
      for (let channel = 0; channel < channels; channel++) {
        const from = mixed.data.subarray(channel * mixed.length, (channel + 1) * mixed.length);
        decodings.progressed();
        this.waited(await resampler.run(from, data.subarray(channel * length, (channel + 1) * length)));
      }
      return { data, rate, channels, length };
    };
    return decodings.run(this.model, bytes, decode, () => this.ended);
  }

  async #mixed(source: PcmSource, { channels, maxLength, isEstimate }: Wanted): Promise<Samples | undefined> {
    const turn = new Turn(MAX_HOLD_MS);
    let data = new Float32Array(channels * maxLength);
    let length = 0;
    try {
      for await (const block of source.blocks()) {
        const count = block[0]?.length ?? 0;
        if (length + count > maxLength) {
          if (isEstimate) return undefined;
          throw this.#tooLarge(`has more than ${this.limits.maxSeconds} seconds; this field takes no more`);
        }
        for (let channel = 0; channel < channels; channel++) {
          const target = data.subarray(channel * maxLength + length, channel * maxLength + length + count);
          const own = block[channel] ?? block[0];
          if (channels === 1 && block.length > 1) mix(block, target);
          else if (own !== undefined) target.set(own);
        }
        length += count;
        if (turn.isOver) {
          decodings.progressed();
          await turn.next();
        }
      }
    } catch (error) {
      throw this.#refusal(error);
    }
    this.waited(turn.waitedMs);
    if (length < maxLength) data = packed(data, { channels, from: maxLength, to: length });
    return { data, rate: source.rate, channels, length };
  }

  async #read(): Promise<PcmSource | undefined> {
    try {
      return await readAudio(this.bytes, this.#decoders);
    } catch (error) {
      throw this.#refusal(error);
    }
  }

  /** Turns a decoder's error into the `file_invalid` error that clients get. Other errors pass unchanged. */
  #refusal(error: unknown): unknown {
    if (error instanceof NoDecoder) {
      return new SconceError("file_invalid", `${this.label} is ${error.message}`, { cause: error });
    }
    if (!(error instanceof DamagedAudio || error instanceof TooManyRecords)) return error;
    const message = `${this.label} is audio that is damaged or cannot be read: ${error.message}`;
    return new SconceError("file_invalid", message, { cause: error });
  }

  #tooLarge(fault: string): SconceError {
    return new SconceError("file_too_large", `${this.label} ${fault}`);
  }
}

function mix(block: readonly Float32Array[], target: Float32Array): void {
  for (let i = 0; i < target.length; i++) {
    let sum = 0;
    for (const channel of block) sum += channel[i] ?? 0;
    target[i] = sum / block.length;
  }
}

/**
 * Copies the first `to` samples of each channel into a new array without gaps. In `data`, a channel has `from` samples.
 */
function packed(
  data: Float32Array<ArrayBuffer>,
  { channels, from, to }: { channels: number; from: number; to: number },
): Float32Array<ArrayBuffer> {
  const result = new Float32Array(channels * to);
  for (let channel = 0; channel < channels; channel++) {
    result.set(data.subarray(channel * from, channel * from + to), channel * to);
  }
  return result;
}

function isCount(value: number, max: number): boolean {
  return Number.isInteger(value) && value >= 1 && value <= max;
}

function wrongCall(problem: string): SconceError {
  return new SconceError("tensor_invalid", `samples(): ${problem}`);
}
