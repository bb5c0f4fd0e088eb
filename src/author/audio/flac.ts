/** Decodes native FLAC files (RFC 9639). FLAC in Ogg is not supported. */
import { BitReader } from "./bit-reader.ts";
import { afterId3 } from "./id3.ts";
import { DamagedAudio, type PcmSource, textAt } from "./pcm.ts";

interface StreamInfo {
  readonly rate: number;
  readonly channels: number;
  readonly bits: number;
  readonly length: number | undefined;
}

/** Type of the metadata block with the sample format: RFC 9639, section 8.1. */
const STREAM_INFO = 0;
const rates = [0, 88_200, 176_400, 192_000, 8000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000];
const sampleBits = [undefined, 8, 12, undefined, 16, 20, 24, 32];
const blockSizes = [undefined, 192, 576, 1152, 2304, 4608];
/** Coefficients of FLAC's fixed predictors. The index is the predictor's order. */
const fixed = [[], [1], [2, -1], [3, -3, 1], [4, -6, 4, -1]];
/** Codes of frames in which a channel is stored as the difference of left and right. */
const assignments = { leftSide: 8, sideRight: 9, midSide: 10 } as const;

/** Reads a FLAC file. @returns undefined for another format. @throws DamagedAudio */
export function readFlac(bytes: Uint8Array): PcmSource | undefined {
  const from = afterId3(bytes);
  if (textAt(bytes, from, 4) !== "fLaC") return undefined;
  const reader = new BitReader(bytes);
  reader.byte = from + 4;
  const info = readMetadata(reader);
  const begin = reader.byte;
  return {
    rate: info.rate,
    channels: info.channels,
    minLength: info.length ?? 0,
    maxLength: info.length,
    *blocks() {
      reader.byte = begin;
      let left = info.length ?? Number.POSITIVE_INFINITY;
      while (left > 0 && !(reader.isAtEnd && info.length === undefined)) {
        const block = readFrame(reader, bytes, info);
        left -= block[0]?.length ?? 0;
        yield block;
      }
    },
  };
}

function readMetadata(reader: BitReader): StreamInfo {
  let info: StreamInfo | undefined;
  for (let isLast = false; !isLast; ) {
    isLast = reader.read(1) === 1;
    const [type, size] = [reader.read(7), reader.read(24)];
    const next = reader.byte + size;
    if (type === STREAM_INFO) info = readStreamInfo(reader);
    reader.byte = next;
  }
  if (info === undefined || info.rate === 0) throw new DamagedAudio("its header is missing");
  return info;
}

function readStreamInfo(reader: BitReader): StreamInfo {
  // Skips the smallest and largest sizes of blocks and frames.
  for (const bits of [16, 16, 24, 24]) reader.read(bits);
  const [rate, channels, bits] = [reader.read(20), reader.read(3) + 1, reader.read(5) + 1];
  const length = reader.read(4) * 2 ** 32 + reader.read(32);
  return { rate, channels, bits, length: length === 0 ? undefined : length };
}

function readFrame(reader: BitReader, bytes: Uint8Array, info: StreamInfo): Float32Array[] {
  const begin = reader.byte;
  if (reader.read(14) !== 0x3ffe || reader.read(1) !== 0) throw new DamagedAudio("a frame is missing");
  reader.read(1);
  const [sizeCode, rateCode, assignment, bitsCode] = [reader.read(4), reader.read(4), reader.read(4), reader.read(3)];
  reader.read(1);
  skipNumber(reader);
  const size = blockSizeOf(reader, sizeCode);
  const rate = rateOf(reader, rateCode) ?? info.rate;
  const channels = assignment < assignments.leftSide ? assignment + 1 : 2;
  const bits = bitsCode === 0 ? info.bits : sampleBits[bitsCode];
  reader.read(8);
  if (size === undefined || bits === undefined || assignment > assignments.midSide) {
    throw new DamagedAudio("a frame has an unknown form");
  }
  if (rate !== info.rate || channels !== info.channels) throw new DamagedAudio("its rate or its channels change");
  const samples = Array.from({ length: channels }, (_, channel) => {
    const isSide =
      assignment === assignments.sideRight ? channel === 0 : channel === 1 && assignment >= assignments.leftSide;
    return readSubframe(reader, size, bits + (isSide ? 1 : 0));
  });
  const end = reader.byte;
  reader.byte = end;
  if (reader.read(16) !== crc16(bytes, begin, end)) throw new DamagedAudio("a frame has another checksum");
  joinChannels(samples, assignment);
  return samples.map((channel) => scaled(channel, 2 ** (bits - 1)));
}

function scaled(channel: Float64Array, loudest: number): Float32Array {
  const floats = new Float32Array(channel.length);
  for (let i = 0; i < channel.length; i++) floats[i] = (channel[i] ?? 0) / loudest;
  return floats;
}

/** Skips the number of the frame or sample, which has the form of a UTF-8 character. */
function skipNumber(reader: BitReader): void {
  const first = reader.read(8);
  const ones = Math.clz32(~(first << 24));
  if (ones === 1 || ones > 7) throw new DamagedAudio("a frame has no number");
  for (let i = 1; i < ones; i++) reader.read(8);
}

function blockSizeOf(reader: BitReader, code: number): number | undefined {
  if (code === 6) return reader.read(8) + 1;
  if (code === 7) return reader.read(16) + 1;
  return code >= 8 ? 256 << (code - 8) : blockSizes[code];
}

/** The sample rate of a frame in Hz. @returns undefined if the frame leaves the rate to the file's header */
function rateOf(reader: BitReader, code: number): number | undefined {
  if (code === 12) return reader.read(8) * 1000;
  if (code === 13) return reader.read(16);
  if (code === 14) return reader.read(16) * 10;
  return rates[code] || undefined;
}

function readSubframe(reader: BitReader, size: number, frameBits: number): Float64Array {
  if (reader.read(1) !== 0) throw new DamagedAudio("a frame has an unknown form");
  const type = reader.read(6);
  const wasted = reader.read(1) === 0 ? 0 : reader.readUnary() + 1;
  const bits = frameBits - wasted;
  if (bits < 1) throw new DamagedAudio("a frame has an unknown form");
  const samples = new Float64Array(size);
  if (type === 0) samples.fill(reader.readSigned(bits));
  else if (type === 1) for (let i = 0; i < size; i++) samples[i] = reader.readSigned(bits);
  else if (type >= 8 && type <= 12) predict(samples, fixedPredictor(reader, samples, { order: type - 8, bits }));
  else if (type >= 32) predict(samples, linearPredictor(reader, samples, { order: type - 31, bits }));
  else throw new DamagedAudio("a frame has an unknown form");
  if (wasted > 0) for (let i = 0; i < size; i++) samples[i] = (samples[i] ?? 0) * 2 ** wasted;
  return samples;
}

interface Predictor {
  readonly coefficients: readonly number[];
  readonly divisor: number;
}

interface Subframe {
  readonly order: number;
  readonly bits: number;
}

function fixedPredictor(reader: BitReader, samples: Float64Array, { order, bits }: Subframe): Predictor {
  readWarmUp(reader, samples, { order, bits });
  readResiduals(reader, samples, order);
  return { coefficients: fixed[order] ?? [], divisor: 1 };
}

function linearPredictor(reader: BitReader, samples: Float64Array, { order, bits }: Subframe): Predictor {
  readWarmUp(reader, samples, { order, bits });
  const precision = reader.read(4) + 1;
  const shift = reader.readSigned(5);
  if (precision === 16 || shift < 0) throw new DamagedAudio("a frame has an unknown form");
  const coefficients = Array.from({ length: order }, () => reader.readSigned(precision));
  readResiduals(reader, samples, order);
  return { coefficients, divisor: 2 ** shift };
}

function readWarmUp(reader: BitReader, samples: Float64Array, { order, bits }: Subframe): void {
  if (order > samples.length) throw new DamagedAudio("a frame is shorter than its predictor");
  for (let i = 0; i < order; i++) samples[i] = reader.readSigned(bits);
}

/** Reads residuals: Rice codes in partitions (RFC 9639, section 9.2.7). */
function readResiduals(reader: BitReader, samples: Float64Array, order: number): void {
  const method = reader.read(2);
  if (method > 1) throw new DamagedAudio("a frame has an unknown form");
  const [parameterBits, partitions] = [method === 0 ? 4 : 5, 2 ** reader.read(4)];
  const count = samples.length / partitions;
  if (!Number.isInteger(count) || count < order) throw new DamagedAudio("a frame has an unknown form");
  let i = order;
  for (let partition = 1; partition <= partitions; partition++) {
    const parameter = reader.read(parameterBits);
    const end = partition * count;
    if (parameter === 2 ** parameterBits - 1) {
      const bits = reader.read(5);
      for (; i < end; i++) samples[i] = reader.readSigned(bits);
    } else {
      const unit = 2 ** parameter;
      for (; i < end; i++) {
        const value = reader.readUnary() * unit + reader.read(parameter);
        samples[i] = (value & 1) === 0 ? value / 2 : -(value + 1) / 2;
      }
    }
  }
}

/** Adds the predictions to the residuals, in place. The sums stay below 2^53, so doubles hold them exactly. */
function predict(samples: Float64Array, { coefficients, divisor }: Predictor): void {
  const order = coefficients.length;
  for (let i = order; i < samples.length; i++) {
    let sum = 0;
    for (let j = 0; j < order; j++) sum += (coefficients[j] ?? 0) * (samples[i - 1 - j] ?? 0);
    samples[i] = (samples[i] ?? 0) + Math.floor(sum / divisor);
  }
}

/** Restores left and right, in place, in a frame in which one channel is stored as their difference. */
function joinChannels([first, second]: readonly Float64Array[], assignment: number): void {
  if (first === undefined || second === undefined || assignment < assignments.leftSide) return;
  for (let i = 0; i < first.length; i++) {
    const [a, b] = [first[i] ?? 0, second[i] ?? 0];
    if (assignment === assignments.leftSide) second[i] = a - b;
    else if (assignment === assignments.sideRight) first[i] = a + b;
    else {
      const doubled = 2 * a + (b % 2 === 0 ? 0 : 1);
      first[i] = (doubled + b) / 2;
      second[i] = (doubled - b) / 2;
    }
  }
}

const crcTable = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = (crc << 1) ^ (crc & 0x8000 ? 0x8005 : 0);
  return crc;
});

function crc16(bytes: Uint8Array, from: number, to: number): number {
  let crc = 0;
  for (let i = from; i < to; i++) crc = ((crc << 8) & 0xffff) ^ (crcTable[(crc >> 8) ^ (bytes[i] ?? 0)] ?? 0);
  return crc;
}
