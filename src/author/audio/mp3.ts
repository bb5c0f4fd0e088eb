/** Finds the frames of MP3 files (MPEG-1, MPEG-2 and MPEG-2.5, layer III). The author's decoder decodes them. */
import { type AudioDecoders, DECODER_BYTES, decodeParts, decoderOf } from "./decoder.ts";
import { afterId3 } from "./id3.ts";
import { DamagedAudio, type PcmSource, textAt } from "./pcm.ts";

interface Frame {
  readonly size: number;
  readonly samples: number;
  readonly rate: number;
  readonly channels: number;
  /** Position of the compressed audio, after the frame's header and side information. */
  readonly data: number;
}

/** Bit rates of layer III in kbit/s, by the index in a frame's header. */
const bitRates = {
  mpeg1: [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  mpeg2: [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
} as const;
const rates = [44_100, 48_000, 32_000];
/** Divisors of `rates` by the version bits of a header: MPEG-2.5, reserved, MPEG-2, MPEG-1. */
const divisors = [4, undefined, 2, 1];
const MONO = 3;
/** Most samples that a decoder drops in addition to the encoder's delay and padding. */
const DECODER_DELAY = 529;
/** Frames that the decoder gets at once: a few milliseconds of work. */
const FRAMES_AT_ONCE = 8;

/** Reads an MP3 file. @returns undefined for another format. @throws DamagedAudio, NoDecoder */
export function readMp3(bytes: Uint8Array, decoders: AudioDecoders, maxSeconds: number): PcmSource | undefined {
  const begin = afterZeros(bytes, afterId3(bytes));
  const first = frameAt(bytes, begin);
  if (first === undefined || !isFollowed(bytes, begin, first)) return undefined;
  const make = decoderOf(decoders, "mp3");
  const { rate, channels, samples } = first;
  const tag = readTag(bytes, begin, first);
  const tagFrames = tag === undefined ? 0 : 1;
  const shortened = (tag?.silence ?? 0) + DECODER_DELAY;
  // Counts no more frames than `maxSeconds` needs: reading millions of frame headers would block the thread.
  const most = tagFrames + Math.ceil((maxSeconds * rate + shortened + 1) / samples);
  const { count, isWhole } = countFrames(bytes, begin, { first, most });
  if (isWhole && count - tagFrames < (tag?.frames ?? 0)) throw new DamagedAudio("it is cut off");
  return {
    rate,
    channels,
    minLength: Math.max(0, (count - tagFrames) * samples - shortened),
    maxLength: isWhole ? count * samples : undefined,
    decoderBytes: DECODER_BYTES,
    blocks: () => decodeParts(make, partsOf(bytes, begin, count), { rate, channels }),
  };
}

/** Reads a frame's header. @returns undefined if no valid header begins at `at` */
function frameAt(bytes: Uint8Array, at: number): Frame | undefined {
  if (bytes[at] !== 0xff || ((bytes[at + 1] ?? 0) & 0xe6) !== 0xe2) return undefined;
  const [b, c, d] = [bytes[at + 1] ?? 0, bytes[at + 2] ?? 0, bytes[at + 3] ?? 0];
  const divisor = divisors[(b >> 3) & 3];
  const isMpeg1 = divisor === 1;
  const bitRate = bitRates[isMpeg1 ? "mpeg1" : "mpeg2"][c >> 4];
  const fullRate = rates[(c >> 2) & 3];
  // Bit rate 0 means free format, which files do not have in practice.
  if (divisor === undefined || fullRate === undefined || !bitRate) return undefined;
  const rate = fullRate / divisor;
  const samples = isMpeg1 ? 1152 : 576;
  const channels = d >> 6 === MONO ? 1 : 2;
  const checksum = (b & 1) === 0 ? 2 : 0;
  const sideInformation = isMpeg1 ? [17, 32] : [9, 17];
  return {
    size: Math.floor(((samples / 8) * 1000 * bitRate) / rate) + ((c >> 1) & 1),
    samples,
    rate,
    channels,
    data: at + 4 + checksum + (sideInformation[channels - 1] ?? 0),
  };
}

/** Whether a second frame or the end follows `first`. In other files, two bytes often look like a header by chance. */
function isFollowed(bytes: Uint8Array, at: number, first: Frame): boolean {
  const next = at + first.size;
  return next >= bytes.length || frameAt(bytes, next)?.rate === first.rate || isEnd(bytes, next);
}

/**
 * Counts at most `most` frames.
 * @throws DamagedAudio if their rate or channels change, other bytes lie between them, or the last frame is cut off
 */
function countFrames(
  bytes: Uint8Array,
  begin: number,
  { first, most }: { readonly first: Frame; readonly most: number },
): { count: number; isWhole: boolean } {
  let count = 0;
  for (let at = begin; at < bytes.length; count++) {
    if (count === most) return { count, isWhole: false };
    const frame = frameAt(bytes, at);
    if (frame === undefined) {
      if (isEnd(bytes, at)) break;
      throw new DamagedAudio(at + 4 > bytes.length ? "it is cut off" : `byte ${at} begins no frame of MP3`);
    }
    if (frame.rate !== first.rate || frame.channels !== first.channels) {
      throw new DamagedAudio("its rate or its channels change");
    }
    at += frame.size;
    if (at > bytes.length) throw new DamagedAudio("it is cut off");
  }
  return { count, isWhole: true };
}

/** Yields whole frames, `FRAMES_AT_ONCE` at a time. */
function* partsOf(bytes: Uint8Array, begin: number, count: number): Generator<Uint8Array> {
  let at = begin;
  for (let done = 0; done < count; done += FRAMES_AT_ONCE) {
    const from = at;
    for (let i = done; i < Math.min(count, done + FRAMES_AT_ONCE); i++) at += frameAt(bytes, at)?.size ?? 0;
    yield bytes.subarray(from, at);
  }
}

interface Tag {
  /** Number of audio frames that the tag states; 0 if it states none. */
  readonly frames: number;
  /** Sum of the samples that the encoder added at the begin and at the end; 0 if the tag states none. */
  readonly silence: number;
}

/** Reads the tag of Xing, LAME or Fraunhofer, which fills the first frame. @returns undefined without a tag */
function readTag(bytes: Uint8Array, begin: number, { data }: Frame): Tag | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const numberAt = (at: number) => (at + 4 <= bytes.length ? view.getUint32(at) : 0);
  if (textAt(bytes, begin + 36, 4) === "VBRI") return { frames: numberAt(begin + 50), silence: 0 };
  if (!["Xing", "Info"].includes(textAt(bytes, data, 4))) return undefined;
  const flags = numberAt(data + 4);
  let at = data + 8;
  const frames = flags & 1 ? numberAt(at) : 0;
  for (const [flag, size] of [
    [1, 4],
    [2, 4],
    [4, 100],
    [8, 4],
  ] as const)
    if (flags & flag) at += size;
  // LAME's tag: after 21 bytes come 12 bits of delay and 12 bits of padding.
  const [a = 0, b = 0, c = 0] = bytes.subarray(at + 21, at + 24);
  const hasLame = /^L(?:AME|avf|avc)/.test(textAt(bytes, at, 4));
  return { frames, silence: hasLame ? (a << 4) + (b >> 4) + ((b & 15) << 8) + c : 0 };
}

/** Whether only tags and zero bytes follow `from`. */
function isEnd(bytes: Uint8Array, from: number): boolean {
  let at = from;
  for (;;) {
    at = afterZeros(bytes, at);
    if (at >= bytes.length) return true;
    const next = afterTag(bytes, at);
    if (next === at) return false;
    at = next;
  }
}

function afterTag(bytes: Uint8Array, at: number): number {
  if (textAt(bytes, at, 4) === "TAG+") return at + 227;
  if (textAt(bytes, at, 3) === "TAG") return at + 128;
  if (textAt(bytes, at, 3) === "ID3") return afterId3(bytes, at);
  if (textAt(bytes, at, 8) === "APETAGEX") {
    const [a = 0, b = 0, c = 0] = bytes.subarray(at + 12, at + 15);
    return at + 32 + a + (b << 8) + (c << 16);
  }
  if (textAt(bytes, at, 11) === "LYRICSBEGIN") {
    const end = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).indexOf("LYRICS200", at);
    return end < 0 ? at : end + 9;
  }
  return at;
}

function afterZeros(bytes: Uint8Array, from: number): number {
  let at = from;
  while (bytes[at] === 0) at++;
  return at;
}
