/**
 * Reads entries of a PyTorch archive: a zip file whose large entries are uncompressed. Format:
 * https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, 4.3.12 to 4.3.16.
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";

interface ZipEntry {
  readonly name: string;
  /** Offset of the local header. The content starts `headerSize` bytes later. */
  readonly offset: number;
  readonly size: number;
  readonly isStored: boolean;
}

/** Bytes at the end of a file that contain the end records: 22, 20 and 56 bytes, and a comment of up to 64 KiB. */
const END_BYTES = 98 + 0xffff;
/** Size of a local header up to the name. */
const HEADER_BYTES = 30;
/** A 32-bit field with this value has its number in a 64-bit field elsewhere (zip64). */
const ZIP64 = 0xffffffff;

export class Archive {
  readonly #path: string;
  readonly #entries: readonly ZipEntry[];

  private constructor(path: string, entries: readonly ZipEntry[]) {
    this.#path = path;
    this.#entries = entries;
  }

  /** Opens an archive. @returns undefined when the file is not a zip file, or is truncated */
  static open(path: string): Archive | undefined {
    const entries = reading(path, readEntries);
    return entries && new Archive(path, entries);
  }

  /** Whether the archive has an entry whose name matches. */
  has(pattern: RegExp): boolean {
    return this.#entry(pattern) !== undefined;
  }

  /** Text of the first entry whose name matches; undefined when there is none, or it is compressed or truncated. */
  text(pattern: RegExp): string | undefined {
    const entry = this.#entry(pattern);
    if (!entry?.isStored) return undefined;
    return reading(this.#path, (read) => {
      const start = entry.offset + headerSize(read(entry.offset, HEADER_BYTES));
      return read(start, entry.size).toString("utf8");
    });
  }

  #entry(pattern: RegExp): ZipEntry | undefined {
    return this.#entries.find(({ name }) => pattern.test(name));
  }
}

type Read = (from: number, length: number) => Buffer;

function reading<T>(path: string, task: (read: Read, size: number) => T): T | undefined {
  try {
    const file = openSync(path, "r");
    try {
      const { size } = fstatSync(file);
      const read: Read = (from, length) => {
        // Checked before the allocation: a hostile file may state a size larger than the memory.
        if (from + length > size) throw new Error("the file is cut off");
        const part = Buffer.alloc(length);
        readSync(file, part, 0, length, from);
        return part;
      };
      return task(read, size);
    } finally {
      closeSync(file);
    }
  } catch {
    return undefined;
  }
}

function readEntries(read: Read, fileSize: number): ZipEntry[] {
  const from = Math.max(0, fileSize - END_BYTES);
  const { offset, size } = locateDirectory(read(from, fileSize - from));
  return parseDirectory(read(offset, size));
}

/** Locates the central directory. @param tail the last `END_BYTES` of the file @throws if the file is not a zip file */
function locateDirectory(tail: Buffer): { readonly offset: number; readonly size: number } {
  const at = tail.lastIndexOf("PK\x05\x06");
  if (at < 0) throw new Error("no end of a zip file");
  const [size, offset] = [tail.readUInt32LE(at + 12), tail.readUInt32LE(at + 16)];
  if (size !== ZIP64 && offset !== ZIP64 && tail.readUInt16LE(at + 10) !== 0xffff) return { offset, size };
  const wide = tail.lastIndexOf("PK\x06\x06", at);
  return { offset: Number(tail.readBigUInt64LE(wide + 48)), size: Number(tail.readBigUInt64LE(wide + 40)) };
}

function parseDirectory(directory: Buffer): ZipEntry[] {
  const entries: ZipEntry[] = [];
  for (let i = 0; i + 46 <= directory.length && directory.readUInt32LE(i) === 0x02014b50; ) {
    const [nameBytes, extraBytes, commentBytes] = [28, 30, 32].map((place) => directory.readUInt16LE(i + place));
    const [nameEnd, extraEnd] = [i + 46 + (nameBytes ?? 0), i + 46 + (nameBytes ?? 0) + (extraBytes ?? 0)];
    const sizes = [24, 20, 42].map((place) => directory.readUInt32LE(i + place));
    const [size = 0, , offset = 0] = zip64Values(sizes, directory.subarray(nameEnd, extraEnd));
    const isStored = directory.readUInt16LE(i + 10) === 0;
    entries.push({ name: directory.toString("utf8", i + 46, nameEnd), offset, size, isStored });
    i = extraEnd + (commentBytes ?? 0);
  }
  return entries;
}

function headerSize(header: Buffer): number {
  return HEADER_BYTES + header.readUInt16LE(26) + header.readUInt16LE(28);
}

/** Replaces each number that does not fit into 32 bits by the number in the extra field (zip64). */
function zip64Values(sizes: readonly number[], extra: Buffer): number[] {
  let at = 0;
  while (at + 4 <= extra.length && extra.readUInt16LE(at) !== 1) at += 4 + extra.readUInt16LE(at + 2);
  let next = at + 4;
  return sizes.map((size) => {
    if (size !== ZIP64) return size;
    next += 8;
    return Number(extra.readBigUInt64LE(next - 8));
  });
}
