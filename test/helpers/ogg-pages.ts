/** Changes pages of Ogg files, and corrects their checksums. */
import { checksum, pagesOf } from "../../src/author/audio/ogg.ts";

/** A copy of an Ogg file with changed pages and right checksums. @param change is called with each page of the copy */
export function withPages(bytes: Uint8Array, change: (page: DataView, index: number) => void): Uint8Array<ArrayBuffer> {
  const copy = Uint8Array.from(bytes);
  let at = 0;
  for (const [index, { bytes: page }] of [...pagesOf(bytes)].entries()) {
    const view = new DataView(copy.buffer, at, page.length);
    change(view, index);
    view.setUint32(22, checksum(copy.subarray(at, at + page.length)), true);
    at += page.length;
  }
  return copy;
}

/**
 * A copy of a damaged Ogg file with right checksums, so that the damage reaches the decoder. A file that is not Ogg is
 * copied unchanged.
 */
export function repaired(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  try {
    return withPages(bytes, () => {});
  } catch {
    return Uint8Array.from(bytes);
  }
}
