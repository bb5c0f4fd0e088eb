/** Reads entries of a PyTorch archive: a zip file whose large entries are uncompressed. */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { directoryPlace, END_BYTES, entriesOf, HEADER_BYTES, headerSize, type ZipEntry } from "../../base/zip.ts";

export class Archive {
  readonly #path: string;
  readonly #entries: readonly ZipEntry[];

  private constructor(path: string, entries: readonly ZipEntry[]) {
    this.#path = path;
    this.#entries = entries;
  }

  /** @returns undefined when the file is not a zip file, or is truncated */
  static open(path: string): Archive | undefined {
    const entries = reading(path, readEntries);
    return entries && new Archive(path, entries);
  }

  /** Whether an entry's name matches. */
  has(pattern: RegExp): boolean {
    return this.#named(pattern) !== undefined;
  }

  /** Text of the first entry whose name matches; undefined when there is none, or it is compressed or truncated. */
  text(pattern: RegExp): string | undefined {
    const entry = this.#named(pattern);
    if (!entry?.isStored) return undefined;
    return reading(this.#path, (read) => {
      const start = entry.offset + headerSize(read(entry.offset, HEADER_BYTES));
      return read(start, entry.size).toString("utf8");
    });
  }

  #named(pattern: RegExp): ZipEntry | undefined {
    return this.#entries.find(({ name }) => pattern.test(name));
  }
}

type Read = (from: number, length: number) => Buffer;

/** @returns undefined when the file is truncated or unreadable */
function reading<T>(path: string, task: (read: Read, size: number) => T): T | undefined {
  try {
    const file = openSync(path, "r");
    try {
      const { size } = fstatSync(file);
      const read: Read = (from, length) => {
        // Checked before allocating: a hostile file may state a size larger than the memory.
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
  const { offset, size } = directoryPlace(read(from, fileSize - from));
  return entriesOf(read(offset, size));
}
