/** Chooses the reader of an audio file by its first bytes. */
import { type AudioDecoders, type AudioFormat, readDecoded } from "./decoder.ts";
import { type PcmSource, textAt } from "./pcm.ts";
import { readWav } from "./wav.ts";

/** Position of the first packet in an Ogg file. */
const OGG_PACKET = 28;

/**
 * Reads an audio file.
 * @returns undefined for an unknown format
 * @throws DamagedAudio, NoDecoder, TooManyRecords
 */
export async function readAudio(bytes: Uint8Array, decoders: AudioDecoders): Promise<PcmSource | undefined> {
  const format = formatOf(bytes);
  return format === undefined ? readWav(bytes) : readDecoded(bytes, format, decoders);
}

function formatOf(bytes: Uint8Array): AudioFormat | undefined {
  if (textAt(bytes, 0, 4) === "fLaC") return "flac";
  if (textAt(bytes, 0, 4) === "OggS") {
    if (textAt(bytes, OGG_PACKET, 8) === "OpusHead") return "opus";
    if (textAt(bytes, OGG_PACKET + 1, 6) === "vorbis") return "vorbis";
    return textAt(bytes, OGG_PACKET + 1, 4) === "FLAC" ? "flac" : undefined;
  }
  // A tag, or the header of a frame of layer III.
  const isFrame = bytes[0] === 0xff && ((bytes[1] ?? 0) & 0xe6) === 0xe2;
  return textAt(bytes, 0, 3) === "ID3" || isFrame ? "mp3" : undefined;
}
