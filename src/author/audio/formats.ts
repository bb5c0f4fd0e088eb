/** Chooses the reader of an audio file by its first bytes. */
import type { AudioDecoders } from "./decoder.ts";
import { readFlac } from "./flac.ts";
import { readMp3 } from "./mp3.ts";
import { isOgg, packetsOf, pagesOf } from "./ogg.ts";
import { readOpus } from "./opus.ts";
import { DamagedAudio, type PcmSource, textAt } from "./pcm.ts";
import { readVorbis } from "./vorbis.ts";
import { readWav } from "./wav.ts";

/**
 * Reads an audio file.
 * @param maxSeconds an MP3 is read only up to this length. For a longer MP3, `minLength` exceeds it and `maxLength` is
 * undefined
 * @returns undefined for an unknown format
 * @throws DamagedAudio, NoDecoder
 */
export function readAudio(bytes: Uint8Array, decoders: AudioDecoders, maxSeconds: number): PcmSource | undefined {
  return readWav(bytes) ?? readFlac(bytes) ?? readOgg(bytes, decoders) ?? readMp3(bytes, decoders, maxSeconds);
}

function readOgg(bytes: Uint8Array, decoders: AudioDecoders): PcmSource | undefined {
  if (!isOgg(bytes)) return undefined;
  const [first] = packetsOf(pagesOf(bytes));
  const header = first?.bytes ?? new Uint8Array();
  if (textAt(header, 0, 8) === "OpusHead") return readOpus(bytes, header);
  if (textAt(header, 1, 6) === "vorbis") return readVorbis(bytes, header, decoders);
  throw new DamagedAudio("its stream is neither Opus nor Vorbis");
}
