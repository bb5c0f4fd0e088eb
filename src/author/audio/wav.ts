/** Reads and writes WAV files. The reader takes PCM of 8 to 32 bits, floats, A-law and µ-law. */
import { MAX_RECORDS, TooManyRecords } from "../records.ts";
import { DamagedAudio, type PcmSource, textAt } from "./pcm.ts";

const BLOCK = 4096;
/** Value of a size field in RF64, whose chunk `ds64` has the size (EBU Tech 3306). */
const IN_DS64 = 0xffffffff;
const formats = { pcm: 1, float: 3, aLaw: 6, muLaw: 7, extensible: 0xfffe } as const;

type Read = (view: DataView, at: number) => number;

/**
 * Reads a WAV file, also with 64-bit sizes (RF64, BW64).
 * @returns undefined for another format
 * @throws DamagedAudio, TooManyRecords
 */
export function readWav(bytes: Uint8Array): PcmSource | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 12 || textAt(bytes, 8, 4) !== "WAVE") return undefined;
  const signature = textAt(bytes, 0, 4);
  if (signature === "RIFX") throw new DamagedAudio("its numbers are big-endian (RIFX), which is not supported");
  if (!["RIFF", "RF64", "BW64"].includes(signature)) return undefined;
  let format: Format | undefined;
  let longSize: number | undefined;
  for (let at = 12, count = 0; at + 8 <= bytes.length; count++) {
    if (count === MAX_RECORDS) throw new TooManyRecords("chunks");
    const [name, size] = [textAt(bytes, at, 4), view.getUint32(at + 4, true)];
    const from = at + 8;
    if (name === "ds64" && size >= 24 && from + 24 <= bytes.length)
      longSize = Number(view.getBigUint64(from + 8, true));
    if (name === "fmt ") format = formatAt(view, from, size);
    if (name === "data") return sourceOf(view, format, { from, size: size === IN_DS64 ? (longSize ?? size) : size });
    at = from + size + (size % 2);
  }
  throw new DamagedAudio("it has no samples");
}

/**
 * Whether the size of the samples is a placeholder. A program that writes to a pipe knows no length. It writes 0, or a
 * number near 2 or 4 GiB: SoX 0x7ffff000, GStreamer 0x7fff0000, arecord 0x80000000. In RF64 the number is 0 or 2 ** 64 - 1,
 * which is 2 ** 64 as a double.
 */
function isPlaceholder(size: number): boolean {
  return (
    size === 0 ||
    (size >= 0x7fff0000 && size <= 0x8000ffff) ||
    (size >= 0xffff0000 && size <= 0xffffffff) ||
    size === 2 ** 64
  );
}

interface Format {
  readonly rate: number;
  readonly channels: number;
  readonly sampleBytes: number;
  readonly read: Read;
}

function formatAt(view: DataView, at: number, size: number): Format {
  if (size < 16 || at + size > view.byteLength) throw new DamagedAudio("its header is cut off");
  const tag = view.getUint16(at, true);
  const kind = tag === formats.extensible && size >= 26 ? view.getUint16(at + 24, true) : tag;
  const [channels, rate, bits] = [
    view.getUint16(at + 2, true),
    view.getUint32(at + 4, true),
    view.getUint16(at + 14, true),
  ];
  // Samples of other sizes, such as 12 or 20 bits, fill the upper bits of whole bytes.
  const sampleBytes = Math.ceil(bits / 8);
  const read = readers.get(`${kind} ${8 * sampleBytes}`);
  if (read === undefined) throw new DamagedAudio(`its encoding (format ${kind} with ${bits} bits) is not supported`);
  if (channels === 0 || rate === 0) throw new DamagedAudio("its header has no channels or no rate");
  return { rate, channels, sampleBytes, read };
}

function sourceOf(
  view: DataView,
  format: Format | undefined,
  { from, size }: { from: number; size: number },
): PcmSource {
  if (format === undefined) throw new DamagedAudio("its samples come before their format");
  const { rate, channels, sampleBytes, read } = format;
  const available = view.byteLength - from;
  const isUnknown = isPlaceholder(size) && (size === 0 || size > available);
  if (size > available && !isUnknown) throw new DamagedAudio("it is cut off");
  const frameBytes = sampleBytes * channels;
  const length = Math.floor((isUnknown ? available : size) / frameBytes);
  return {
    rate,
    channels,
    length,
    *blocks() {
      const block = Array.from({ length: channels }, () => new Float32Array(BLOCK));
      for (let first = 0; first < length; first += BLOCK) {
        const count = Math.min(BLOCK, length - first);
        for (const [channel, samples] of block.entries()) {
          let at = from + first * frameBytes + channel * sampleBytes;
          for (let i = 0; i < count; i++, at += frameBytes) samples[i] = read(view, at);
        }
        yield block.map((samples) => samples.subarray(0, count));
      }
    },
  };
}

const readers: ReadonlyMap<string, Read> = new Map<string, Read>([
  [`${formats.pcm} 8`, (view, at) => (view.getUint8(at) - 128) / 128],
  [`${formats.pcm} 16`, (view, at) => view.getInt16(at, true) / 2 ** 15],
  [`${formats.pcm} 24`, (view, at) => (view.getInt16(at + 1, true) * 256 + view.getUint8(at)) / 2 ** 23],
  [`${formats.pcm} 32`, (view, at) => view.getInt32(at, true) / 2 ** 31],
  [`${formats.float} 32`, (view, at) => view.getFloat32(at, true)],
  [`${formats.float} 64`, (view, at) => view.getFloat64(at, true)],
  [`${formats.aLaw} 8`, (view, at) => aLaw(view.getUint8(at))],
  [`${formats.muLaw} 8`, (view, at) => muLaw(view.getUint8(at))],
]);

/** Decodes an A-law byte to a value from -1 to 1 (ITU-T G.711). */
function aLaw(code: number): number {
  const bits = code ^ 0x55;
  const exponent = (bits >> 4) & 7;
  const mantissa = ((bits & 15) << 4) + 8;
  const magnitude = exponent === 0 ? mantissa : (mantissa + 256) << (exponent - 1);
  return (bits & 0x80 ? magnitude : -magnitude) / 2 ** 15;
}

/** Decodes a µ-law byte to a value from -1 to 1 (ITU-T G.711). */
function muLaw(code: number): number {
  const bits = ~code & 0xff;
  const magnitude = ((((bits & 15) << 3) + 0x84) << ((bits >> 4) & 7)) - 0x84;
  return (bits & 0x80 ? -magnitude : magnitude) / 2 ** 15;
}

/** Bytes of the header that the writer makes. */
const HEADER_BYTES = 44;
/** Formats of the samples that the writer knows. */
export const encodings = ["pcm16", "float32"] as const;

export interface WavOptions {
  readonly rate: number;
  readonly channels: number;
  readonly encoding: (typeof encodings)[number];
}

/**
 * Encodes a WAV file.
 * @param data values from -1 to 1, one channel after the other
 */
export function writeWav(data: Float32Array, { rate, channels, encoding }: WavOptions): Uint8Array<ArrayBuffer> {
  const isFloat = encoding === "float32";
  const sampleBytes = isFloat ? 4 : 2;
  const frameBytes = sampleBytes * channels;
  const length = data.length / channels;
  const bytes = new Uint8Array(HEADER_BYTES + length * frameBytes);
  const view = new DataView(bytes.buffer);
  const text = (at: number, name: string) => bytes.set(new TextEncoder().encode(name), at);
  text(0, "RIFF");
  view.setUint32(4, bytes.length - 8, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, isFloat ? formats.float : formats.pcm, true);
  view.setUint16(22, channels, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, rate * frameBytes, true);
  view.setUint16(32, frameBytes, true);
  view.setUint16(34, 8 * sampleBytes, true);
  text(36, "data");
  view.setUint32(40, bytes.length - HEADER_BYTES, true);
  for (let channel = 0; channel < channels; channel++) {
    let to = HEADER_BYTES + channel * sampleBytes;
    for (let i = channel * length; i < (channel + 1) * length; i++, to += frameBytes) {
      const sample = data[i] ?? 0;
      if (isFloat) view.setFloat32(to, sample, true);
      else view.setInt16(to, Math.max(-32768, Math.min(32767, Math.round(sample * 32768))), true);
    }
  }
  return bytes;
}
