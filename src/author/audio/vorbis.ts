/** Reads the header of Ogg Vorbis files. The author's decoder decodes the pages. */
import { type AudioDecoders, DECODER_BYTES, decodeParts, decoderOf } from "./decoder.ts";
import { checkedPages, type OggPage, positionsOf } from "./ogg.ts";
import { DamagedAudio, type PcmSource } from "./pcm.ts";

/**
 * Reads an Ogg Vorbis file.
 * @param header the first packet
 * @throws DamagedAudio, NoDecoder
 */
export function readVorbis(bytes: Uint8Array, header: Uint8Array, decoders: AudioDecoders): PcmSource {
  const make = decoderOf(decoders, "vorbis");
  const channels = header[11] ?? 0;
  if (header.length < 30) throw new DamagedAudio("its header is damaged");
  const rate = Buffer.from(header.buffer, header.byteOffset, header.byteLength).readUInt32LE(12);
  const { first, last } = positionsOf(bytes);
  return {
    rate,
    channels,
    minLength: last - first,
    maxLength: last,
    decoderBytes: DECODER_BYTES,
    blocks: () => decodeParts(make, partsOf(checkedPages(bytes)), { rate, channels }),
  };
}

function* partsOf(pages: Iterable<OggPage>): Generator<Uint8Array> {
  for (const page of pages) yield page.bytes;
}
