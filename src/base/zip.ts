/** The list at the end of a zip file: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, 4.3.12 to 4.3.16. */

export interface ZipEntry {
  readonly name: string;
  /** Where its header begins; its bytes follow that, as far behind as `headerSize` says. */
  readonly offset: number;
  readonly packedSize: number;
  readonly size: number;
  readonly isStored: boolean;
}

/** The most bytes from the end of a file in which the place of the list stands: records of 22, 20 and 56 bytes and a comment. */
export const END_BYTES = 98 + 0xffff;
/** Bytes of an entry's header up to its name. */
export const HEADER_BYTES = 30;
/** In the place of a number that stands in a field of 64 bits. */
const ELSEWHERE = 0xffffffff;

/** Where the list lies, from the last bytes of a file. @throws where that is no zip file */
export function directoryPlace(tail: Buffer): { readonly offset: number; readonly size: number } {
  const at = tail.lastIndexOf("PK\x05\x06");
  if (at < 0) throw new Error("no end of a zip file");
  const [size, offset] = [tail.readUInt32LE(at + 12), tail.readUInt32LE(at + 16)];
  if (size !== ELSEWHERE && offset !== ELSEWHERE && tail.readUInt16LE(at + 10) !== 0xffff) return { offset, size };
  const wide = tail.lastIndexOf("PK\x06\x06", at);
  return { offset: Number(tail.readBigUInt64LE(wide + 48)), size: Number(tail.readBigUInt64LE(wide + 40)) };
}

export function entriesOf(directory: Buffer): ZipEntry[] {
  const entries: ZipEntry[] = [];
  for (let i = 0; i + 46 <= directory.length && directory.readUInt32LE(i) === 0x02014b50; ) {
    const [nameBytes, extraBytes, commentBytes] = [28, 30, 32].map((place) => directory.readUInt16LE(i + place));
    const [nameEnd, extraEnd] = [i + 46 + (nameBytes ?? 0), i + 46 + (nameBytes ?? 0) + (extraBytes ?? 0)];
    const sizes = [24, 20, 42].map((place) => directory.readUInt32LE(i + place));
    const [size = 0, packedSize = 0, offset = 0] = wideNumbers(sizes, directory.subarray(nameEnd, extraEnd));
    const isStored = directory.readUInt16LE(i + 10) === 0;
    entries.push({ name: directory.toString("utf8", i + 46, nameEnd), offset, packedSize, size, isStored });
    i = extraEnd + (commentBytes ?? 0);
  }
  return entries;
}

/** Bytes from an entry's offset to its content. */
export function headerSize(header: Buffer): number {
  return HEADER_BYTES + header.readUInt16LE(26) + header.readUInt16LE(28);
}

/** Numbers that do not fit into 32 bits stand in the extra field 1, in their order. */
function wideNumbers(sizes: readonly number[], extra: Buffer): number[] {
  let at = 0;
  while (at + 4 <= extra.length && extra.readUInt16LE(at) !== 1) at += 4 + extra.readUInt16LE(at + 2);
  let next = at + 4;
  return sizes.map((size) => {
    if (size !== ELSEWHERE) return size;
    next += 8;
    return Number(extra.readBigUInt64LE(next - 8));
  });
}
