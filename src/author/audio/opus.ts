/** Reads Ogg Opus files (RFC 7845). libopus in WebAssembly decodes them at 48 kHz. */
import { attempt, DECODER_BYTES } from "./decoder.ts";
import { checkedPages, type OggPacket, packetsOf, positionsOf } from "./ogg.ts";
import { DamagedAudio, type PcmSource } from "./pcm.ts";

const RATE = 48_000;
/** Packets before the audio: identification and comments. */
const HEADERS = 2;
/** Durations of a frame in milliseconds in Opus's three modes (RFC 6716, section 3.1). */
const silk = [10, 20, 40, 60];
const hybrid = [10, 20];
const celt = [2.5, 5, 10, 20];
const frameMs = [silk, silk, silk, hybrid, hybrid, celt, celt, celt, celt].flat();
const MAX_PACKET_MS = 120;

interface Head {
  readonly channels: number;
  /** Samples to drop at the start of the stream (pre-skip). */
  readonly skipped: number;
  readonly gain: number;
  readonly streams: number;
  readonly pairs: number;
  readonly mapping: readonly number[];
}

/**
 * Reads an Ogg Opus file.
 * @param header the first packet
 * @throws DamagedAudio
 */
export function readOpus(bytes: Uint8Array, header: Uint8Array): PcmSource {
  const head = headOf(header);
  const { first, last } = positionsOf(bytes);
  return {
    rate: RATE,
    channels: head.channels,
    minLength: Math.max(0, last - first - head.skipped),
    maxLength: Math.max(0, last - head.skipped),
    decoderBytes: DECODER_BYTES,
    blocks: () => decode(bytes, head, last),
  };
}

function headOf(header: Uint8Array): Head {
  const view = Buffer.from(header.buffer, header.byteOffset, header.byteLength);
  if (view.length < 19 || (header[8] ?? 0) > 15) throw new DamagedAudio("its header is damaged");
  const channels = header[9] ?? 0;
  const family = header[18];
  const skipped = view.readUInt16LE(10);
  const gain = 10 ** (view.readInt16LE(16) / 256 / 20);
  if (family === 0 && (channels === 1 || channels === 2)) {
    return { channels, skipped, gain, streams: 1, pairs: channels - 1, mapping: [0, 1].slice(0, channels) };
  }
  if (family !== 1) throw new DamagedAudio(`its channel mapping family ${family} is not supported`);
  const [streams = 0, pairs = 0, ...mapping] = header.subarray(19, 21 + channels);
  const isRight =
    channels >= 1 &&
    channels <= 8 &&
    mapping.length === channels &&
    streams >= 1 &&
    pairs <= streams &&
    mapping.every((source) => source < streams + pairs || source === 255);
  if (!isRight) throw new DamagedAudio("its header is damaged");
  return { channels, skipped, gain, streams, pairs, mapping };
}

async function* decode(bytes: Uint8Array, head: Head, last: number): AsyncGenerator<readonly Float32Array[]> {
  const { libopus } = await import("./libopus.ts");
  const { channels, streams: streamCount, pairs: coupledStreamCount, skipped, gain } = head;
  const decoder = new libopus.OpusDecoder({
    channels,
    streamCount,
    coupledStreamCount,
    channelMappingTable: [...head.mapping],
    sampleRate: RATE,
  });
  try {
    await decoder.ready;
    /** Positions of the next packet and of the end, in samples from the file's first sample. */
    let at = 0;
    let end: number | undefined;
    for (const packet of audioPackets(bytes)) {
      end ??= last - beginOf(bytes);
      // Samples of the last page beyond its stated position are dropped.
      if (at >= end) break;
      const size = lengthOf(packet.bytes);
      const { channelData, errors } = await attempt(() => decoder.decodeFrame(packet.bytes));
      if (errors[0] !== undefined || channelData[0]?.length !== size) throw new DamagedAudio("a packet is damaged");
      const from = Math.max(0, skipped - at);
      const to = Math.min(size, end - at);
      if (to > from) yield channelData.map((samples) => scaled(samples.subarray(from, to), gain));
      at += size;
    }
    if (at < (end ?? last)) throw new DamagedAudio("a page is missing");
  } finally {
    await attempt(() => decoder.free()).catch(() => {});
  }
}

function* audioPackets(bytes: Uint8Array): Generator<OggPacket> {
  let count = 0;
  for (const packet of packetsOf(checkedPages(bytes))) if (count++ >= HEADERS) yield packet;
}

/** Position of the first sample; above 0 in a file cut from a longer stream. */
function beginOf(bytes: Uint8Array): number {
  let length = 0;
  let page: OggPacket["page"] | undefined;
  for (const packet of audioPackets(bytes)) {
    page ??= packet.page;
    if (packet.page !== page) break;
    length += lengthOf(packet.bytes);
  }
  const begin = (page?.position ?? 0) - length;
  if (begin < 0 && page?.isLast !== true) throw new DamagedAudio("a page has an impossible position");
  return Math.max(0, begin);
}

/** Number of samples of one channel in a packet. */
function lengthOf(packet: Uint8Array): number {
  const [head, second = 0] = packet;
  if (head === undefined) throw new DamagedAudio("a packet is empty");
  const code = head & 3;
  const frames = code === 0 ? 1 : code === 3 ? second & 63 : 2;
  const ms = frames * (frameMs[head >> 3] ?? 0);
  if (ms === 0 || ms > MAX_PACKET_MS) throw new DamagedAudio("a packet is damaged");
  return (ms * RATE) / 1000;
}

function scaled(samples: Float32Array, gain: number): Float32Array {
  return gain === 1 ? samples : samples.map((sample) => sample * gain);
}
