/** The entries of an archive that PyTorch wrote: a zip file whose large entries are not compressed. */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";

interface Place {
  readonly offset: number;
  readonly size: number;
  readonly isStored: boolean;
}

/** The end record without its comment, and the longest comment. */
const END_BYTES = 22 + 0xffff;
/** In the place of a number that stands in a field of 64 bits. */
const ELSEWHERE = 0xffffffff;

export class Archive {
  readonly #path: string;
  readonly #places: ReadonlyMap<string, Place>;

  private constructor(path: string, places: ReadonlyMap<string, Place>) {
    this.#path = path;
    this.#places = places;
  }

  /** @returns undefined for what is no zip file, or is cut off */
  static open(path: string): Archive | undefined {
    try {
      return new Archive(path, reading(path, placesOf));
    } catch {
      return undefined;
    }
  }

  /** Whether an entry's name matches. */
  has(pattern: RegExp): boolean {
    return this.#named(pattern) !== undefined;
  }

  /** The first entry whose name matches, as text; undefined where there is none, or it is compressed. */
  text(pattern: RegExp): string | undefined {
    const place = this.#named(pattern);
    if (!place?.isStored) return undefined;
    return reading(this.#path, (read) => {
      const local = read(place.offset, 30);
      const start = place.offset + 30 + local.readUInt16LE(26) + local.readUInt16LE(28);
      return read(start, place.size).toString("utf8");
    });
  }

  #named(pattern: RegExp): Place | undefined {
    return [...this.#places].find(([name]) => pattern.test(name))?.[1];
  }
}

type Read = (from: number, length: number) => Buffer;

function reading<T>(path: string, task: (read: Read, size: number) => T): T {
  const file = openSync(path, "r");
  try {
    const read: Read = (from, length) => {
      const part = Buffer.alloc(length);
      if (readSync(file, part, 0, length, from) < length) throw new Error("the file is cut off");
      return part;
    };
    return task(read, fstatSync(file).size);
  } finally {
    closeSync(file);
  }
}

/** Reads the central directory: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, 4.3.12 to 4.3.16. */
function placesOf(read: Read, fileSize: number): Map<string, Place> {
  const from = Math.max(0, fileSize - END_BYTES);
  const tail = read(from, fileSize - from);
  const at = tail.lastIndexOf("PK\x05\x06");
  if (at < 0) throw new Error("no end of a zip file");
  let [size, offset] = [tail.readUInt32LE(at + 12), tail.readUInt32LE(at + 16)];
  if (size === ELSEWHERE || offset === ELSEWHERE || tail.readUInt16LE(at + 10) === 0xffff) {
    const end = read(Number(tail.readBigUInt64LE(at - 20 + 8)), 56);
    [size, offset] = [Number(end.readBigUInt64LE(40)), Number(end.readBigUInt64LE(48))];
  }
  const directory = read(offset, size);
  const places = new Map<string, Place>();
  for (let i = 0; i + 46 <= directory.length && directory.readUInt32LE(i) === 0x02014b50; ) {
    const [nameBytes, extraBytes, commentBytes] = [28, 30, 32].map((place) => directory.readUInt16LE(i + place));
    const [nameEnd, extraEnd] = [i + 46 + (nameBytes ?? 0), i + 46 + (nameBytes ?? 0) + (extraBytes ?? 0)];
    const sizes = [24, 20, 42].map((place) => directory.readUInt32LE(i + place));
    const [whole = 0, , start = 0] = wide(sizes, directory.subarray(nameEnd, extraEnd));
    places.set(directory.toString("utf8", i + 46, nameEnd), {
      offset: start,
      size: whole,
      isStored: directory.readUInt16LE(i + 10) === 0,
    });
    i = extraEnd + (commentBytes ?? 0);
  }
  return places;
}

/** Numbers that do not fit into 32 bits stand in the extra field 1, in their order. */
function wide(sizes: readonly number[], extra: Buffer): number[] {
  let at = 0;
  while (at + 4 <= extra.length && extra.readUInt16LE(at) !== 1) at += 4 + extra.readUInt16LE(at + 2);
  let next = at + 4;
  return sizes.map((size) => {
    if (size !== ELSEWHERE) return size;
    next += 8;
    return Number(extra.readBigUInt64LE(next - 8));
  });
}
