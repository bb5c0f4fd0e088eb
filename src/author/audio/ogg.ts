/** Pages and packets of Ogg files (RFC 3533) with one stream. */
import { DamagedAudio, textAt } from "./pcm.ts";

const HEADER = 27;
/** `OggS` in ASCII. */
const SIGNATURE = 0x4f676753;
const flags = { continued: 1, last: 4 } as const;

export class OggPage {
  readonly #view: DataView;
  readonly #at: number;
  readonly #end: number;

  constructor(view: DataView, at: number, end: number) {
    this.#view = view;
    this.#at = at;
    this.#end = end;
  }

  get bytes(): Uint8Array {
    return this.#part(this.#at, this.#end);
  }

  /** Segment table: sizes of packet parts in bytes. A size below 255 ends a packet. */
  get sizes(): Uint8Array {
    const begin = this.#at + HEADER;
    return this.#part(begin, begin + this.#view.getUint8(begin - 1));
  }

  /**
   * Granule position: samples up to the end of the page. Undefined if no packet ends on the page. @throws DamagedAudio
   */
  get position(): number | undefined {
    const value = this.#view.getInt32(this.#at + 10, true) * 2 ** 32 + this.#view.getUint32(this.#at + 6, true);
    if (value === -1) return undefined;
    if (value < 0 || value > Number.MAX_SAFE_INTEGER) throw new DamagedAudio("a page has an impossible position");
    return value;
  }

  get checksum(): number {
    return this.#view.getUint32(this.#at + 22, true);
  }

  get isContinued(): boolean {
    return (this.#view.getUint8(this.#at + 5) & flags.continued) !== 0;
  }

  get isLast(): boolean {
    return (this.#view.getUint8(this.#at + 5) & flags.last) !== 0;
  }

  #part(from: number, to: number): Uint8Array {
    return new Uint8Array(this.#view.buffer, this.#view.byteOffset + from, to - from);
  }
}

export function isOgg(bytes: Uint8Array): boolean {
  return textAt(bytes, 0, 4) === "OggS";
}

export function* pagesOf(bytes: Uint8Array): Generator<OggPage> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let stream = 0;
  let isComplete = false;
  for (let at = 0, count = 0; at < bytes.length; count++) {
    if (at + HEADER > bytes.length) break;
    if (view.getUint32(at) !== SIGNATURE) throw new DamagedAudio(`byte ${at} begins no page of Ogg`);
    if (count === 0) stream = view.getUint32(at + 14, true);
    if (view.getUint32(at + 14, true) !== stream || isComplete) throw new DamagedAudio("it has several streams");
    if (view.getUint32(at + 18, true) !== count) throw new DamagedAudio("a page is missing");
    const segments = view.getUint8(at + 26);
    let end = at + HEADER + segments;
    for (let i = 0; i < segments; i++) end += bytes[at + HEADER + i] ?? 0;
    if (end > bytes.length) break;
    const page = new OggPage(view, at, end);
    isComplete = page.isLast;
    // Millions of empty pages would block the thread for seconds.
    if (segments === 0 && !isComplete) throw new DamagedAudio("a page is empty");
    yield page;
    at = end;
  }
  if (!isComplete) throw new DamagedAudio("it is cut off");
}

/** Yields the pages in order and compares their checksums. @throws DamagedAudio */
export function* checkedPages(bytes: Uint8Array): Generator<OggPage> {
  for (const page of pagesOf(bytes)) {
    if (checksum(page.bytes) !== page.checksum) throw new DamagedAudio("a page has another checksum");
    yield page;
  }
}

export interface OggPacket {
  readonly bytes: Uint8Array;
  readonly page: OggPage;
}

/** Yields packets; a packet may span several pages. @throws DamagedAudio */
export function* packetsOf(pages: Iterable<OggPage>): Generator<OggPacket> {
  let parts: Uint8Array[] = [];
  for (const page of pages) {
    if (page.isContinued !== parts.length > 0) throw new DamagedAudio("a page is missing");
    const { bytes, sizes } = page;
    let begin = HEADER + sizes.length;
    let end = begin;
    for (const size of sizes) {
      end += size;
      if (size === 255) continue;
      const part = bytes.subarray(begin, end);
      yield { bytes: parts.length === 0 ? part : Buffer.concat([...parts, part]), page };
      parts = [];
      begin = end;
    }
    if (sizes.at(-1) === 255) parts.push(bytes.subarray(begin, end));
  }
  if (parts.length > 0) throw new DamagedAudio("it is cut off");
}

/** Granule positions in samples: of the first page with samples, and of the last page. @throws DamagedAudio */
export function positionsOf(bytes: Uint8Array): { readonly first: number; readonly last: number } {
  let first: number | undefined;
  let last = 0;
  for (const { position = 0 } of pagesOf(bytes)) {
    if (position === 0) continue;
    if (position < last) throw new DamagedAudio("its pages are not in order");
    first ??= position;
    last = position;
  }
  return { first: first ?? 0, last };
}

/** Table for CRC-32 with the polynomial 0x04c11db7, most significant bit first. */
const remainders = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte << 24;
  for (let bit = 0; bit < 8; bit++) value = value & 0x80000000 ? (value << 1) ^ 0x04c11db7 : value << 1;
  return value;
});

/** The checksum of a page. The four bytes of the checksum field count as zeros. */
export function checksum(page: Uint8Array): number {
  let value = 0;
  for (let i = 0; i < page.length; i++) {
    const byte = i >= 22 && i < 26 ? 0 : (page[i] ?? 0);
    value = (value << 8) ^ (remainders[(value >>> 24) ^ byte] ?? 0);
  }
  return value >>> 0;
}
