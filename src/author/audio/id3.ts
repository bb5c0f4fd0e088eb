/** Skips ID3v2 tags, which may precede MP3 and FLAC data. */
import { textAt } from "./pcm.ts";

/** The position after all ID3v2 tags that begin at `from`; without a tag, `from`. */
export function afterId3(bytes: Uint8Array, from = 0): number {
  let at = from;
  while (textAt(bytes, at, 3) === "ID3") {
    const [flags = 0, a = 0, b = 0, c = 0, d = 0] = bytes.subarray(at + 5, at + 10);
    const hasFooter = (flags & 0x10) !== 0;
    at += 10 + ((a << 21) | (b << 14) | (c << 7) | d) + (hasFooter ? 10 : 0);
  }
  return at;
}
