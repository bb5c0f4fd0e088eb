/** Reads the pages of an Ogg file (RFC 3533). */
import { bufferOf } from "../../base/bytes.ts";
import { crc } from "./crc.ts";

const MARK = "OggS";
/** Bytes of a page's header, without its table of segments. */
const HEADER = 27;
const FLAGS = 5;
const CHECKSUM = 22;
const SEGMENTS = 26;
const IS_LAST = 4;

/**
 * The complete pages. The reader leaves out bytes between and behind the pages, and a page that is cut off, like libogg. The last
 * page says that it is the last: decoders then drop the samples behind the stream's end.
 */
export function* pagesOf(bytes: Uint8Array): Generator<Uint8Array> {
  const file = bufferOf(bytes);
  let page: Buffer | undefined;
  for (let at = file.indexOf(MARK, 0, "latin1"); at >= 0; at = file.indexOf(MARK, at + page.length, "latin1")) {
    const next = pageAt(file, at);
    if (next === undefined) break;
    if (page !== undefined) yield page;
    page = next;
  }
  if (page !== undefined) yield asLast(page);
}

function pageAt(file: Buffer, at: number): Buffer | undefined {
  const segments = file[at + SEGMENTS] ?? 0;
  const table = file.subarray(at + HEADER, at + HEADER + segments);
  const end = at + HEADER + segments + table.reduce((sum, length) => sum + length, 0);
  return table.length === segments && end <= file.length ? file.subarray(at, end) : undefined;
}

function asLast(page: Buffer): Buffer {
  const flags = page[FLAGS] ?? 0;
  if ((flags & IS_LAST) !== 0) return page;
  const last = Buffer.from(page);
  last[FLAGS] = flags | IS_LAST;
  last.writeUInt32LE(0, CHECKSUM);
  last.writeUInt32LE(crc(last, { bits: 32, polynomial: 0x04c11db7 }), CHECKSUM);
  return last;
}
