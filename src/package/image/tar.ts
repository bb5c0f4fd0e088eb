/**
 * Writes tar archives (POSIX pax) that depend only on the entries: all times are 1970 and, by default, the owner is root.
 * Bun.Archive sets no modes, owners or times, and keeps the whole archive in memory.
 */
import { open } from "node:fs/promises";
import { SconceError } from "../../base/errors.ts";

/** A file or folder of an archive. `path` has no leading slash. The default owner is root. */
export type TarEntry = {
  readonly path: string;
  readonly mode: number;
  readonly uid?: number;
  readonly gid?: number;
} & (
  | { readonly kind: "folder" }
  /** `source` is the content as bytes, or the path of a file that has the content. */
  | { readonly kind: "file"; readonly source: string | Uint8Array }
);

const blockBytes = 512;
const readBytes = 1024 * 1024;
/** Largest file size in bytes that fits into the 11 octal digits of a tar header. */
const maxHeaderSize = 8 ** 11 - 1;
const maxHeaderName = 100;

/**
 * The bytes of an archive, in chunks. The next chunk may overwrite the last one.
 * @throws SconceError `image_invalid` when a file changes while it is read
 */
export async function* tar(entries: readonly TarEntry[]): AsyncGenerator<Uint8Array> {
  for (const entry of entries) {
    if (entry.kind !== "file") {
      yield headers(entry, 0);
    } else if (typeof entry.source === "string") {
      yield* file(entry, entry.source);
    } else {
      yield headers(entry, entry.source.length);
      yield entry.source;
      yield padding(entry.source.length);
    }
  }
  yield new Uint8Array(2 * blockBytes);
}

async function* file(entry: TarEntry, path: string): AsyncGenerator<Uint8Array> {
  await using input = await open(path, "r");
  const { size } = await input.stat();
  yield headers(entry, size);
  const buffer = new Uint8Array(readBytes);
  let done = 0;
  for (;;) {
    const { bytesRead } = await input.read(buffer, 0, buffer.length, done);
    done += bytesRead;
    if (bytesRead === 0 || done > size) break;
    yield buffer.subarray(0, bytesRead);
  }
  if (done !== size)
    throw new SconceError("image_invalid", `${path} was changed while it was read; write the image again`);
  yield padding(size);
}

function padding(size: number): Uint8Array {
  return new Uint8Array((blockBytes - (size % blockBytes)) % blockBytes);
}

/** The header of an entry. A pax header comes first if the path or size does not fit into the tar header. */
function headers(entry: TarEntry, size: number): Uint8Array {
  const name = entry.kind === "folder" ? `${entry.path}/` : entry.path;
  const extended = [
    ...(Buffer.byteLength(name) > maxHeaderName ? [paxRecord("path", name)] : []),
    ...(size > maxHeaderSize ? [paxRecord("size", String(size))] : []),
  ];
  const own = header({ ...entry, name, size, type: { file: "0", folder: "5" }[entry.kind] });
  if (extended.length === 0) return own;
  const records = Buffer.from(extended.join(""));
  const pax = header({ name: "pax", mode: 0o644, size: records.length, type: "x" });
  return Buffer.concat([pax, records, padding(records.length), own]);
}

interface HeaderFields {
  readonly name: string;
  readonly mode: number;
  readonly uid?: number;
  readonly gid?: number;
  readonly size: number;
  readonly type: string;
}

function header({ name, mode, uid = 0, gid = 0, size, type }: HeaderFields): Uint8Array {
  const block = Buffer.alloc(blockBytes);
  const octal = (value: number, at: number, length: number) =>
    block.write(value.toString(8).padStart(length - 1, "0"), at, "latin1");
  // Truncates a long name. The pax header before it has the full name.
  block.set(Buffer.from(name).subarray(0, maxHeaderName), 0);
  octal(mode, 100, 8);
  octal(uid, 108, 8);
  octal(gid, 116, 8);
  octal(size > maxHeaderSize ? 0 : size, 124, 12);
  octal(0, 136, 12);
  block.fill(" ", 148, 156);
  block.write(type, 156, "latin1");
  block.write("ustar\0" + "00", 257, "latin1");
  octal(0, 329, 8);
  octal(0, 337, 8);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return block;
}

/** A record of a pax header: `LENGTH KEY=VALUE\n`. The length includes its own digits. */
function paxRecord(key: string, value: string): string {
  const rest = Buffer.byteLength(` ${key}=${value}\n`);
  let length = rest;
  while (length !== rest + String(length).length) length = rest + String(length).length;
  return `${length} ${key}=${value}\n`;
}
