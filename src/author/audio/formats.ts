/** Chooses the reader of an audio file by its first bytes. */
import { type AudioDecoders, type AudioFormat, readDecoded } from "./decoder.ts";
import { type PcmSource, textAt } from "./pcm.ts";
import { readWav } from "./wav.ts";

/** Position of the first packet in an Ogg file. */
const OGG_PACKET = 28;
const ID3_HEADER = 10;

/**
 * Reads an audio file.
 * @returns undefined for an unknown format
 * @throws DamagedAudio, NoDecoder, TooManyRecords
 */
export async function readAudio(bytes: Uint8Array, decoders: AudioDecoders): Promise<PcmSource | undefined> {
  const file = withoutTag(bytes);
  const format = formatOf(file);
  if (format !== undefined) return readDecoded(file, format, decoders);
  // A decoder of MP3 reads the tag itself.
  return textAt(bytes, 0, 3) === "ID3" ? readDecoded(bytes, "mp3", decoders) : readWav(bytes);
}

/** The file behind a tag of ID3v2, whose length has 7 bits a byte. */
function withoutTag(bytes: Uint8Array): Uint8Array {
  if (textAt(bytes, 0, 3) !== "ID3") return bytes;
  const length = bytes.subarray(6, 10).reduce((sum, byte) => sum * 128 + (byte & 127), 0);
  return bytes.subarray(ID3_HEADER + length);
}

function formatOf(bytes: Uint8Array): AudioFormat | undefined {
  if (textAt(bytes, 0, 4) === "fLaC") return "flac";
  if (textAt(bytes, 0, 4) === "OggS") {
    if (textAt(bytes, OGG_PACKET, 8) === "OpusHead") return "opus";
    if (textAt(bytes, OGG_PACKET + 1, 6) === "vorbis") return "vorbis";
    return textAt(bytes, OGG_PACKET + 1, 4) === "FLAC" ? "flac" : undefined;
  }
  // The header of a frame of layer III.
  return bytes[0] === 0xff && ((bytes[1] ?? 0) & 0xe6) === 0xe2 ? "mp3" : undefined;
}
