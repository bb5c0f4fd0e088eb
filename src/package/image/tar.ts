/**
 * Writes tar archives (POSIX ustar) that depend only on the entries: all times are 1970 and, by default, the owner is root.
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
/** Largest number that fits into the 11 octal digits of a tar header. */
const maxOctal = 8 ** 11 - 1;

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

/** The header of an entry. A file of more than 8 GiB has its size in binary, which all readers of images know. */
function headers(entry: TarEntry, size: number): Uint8Array {
  const block = Buffer.alloc(blockBytes);
  const octal = (value: number, at: number, length: number) =>
    block.write(value.toString(8).padStart(length - 1, "0"), at, "latin1");
  const [prefix, name] = splitPath(entry.kind === "folder" ? `${entry.path}/` : entry.path);
  block.write(name, 0);
  octal(entry.mode, 100, 8);
  octal(entry.uid ?? 0, 108, 8);
  octal(entry.gid ?? 0, 116, 8);
  if (size <= maxOctal) octal(size, 124, 12);
  else {
    block[124] = 0x80;
    block.writeBigUInt64BE(BigInt(size), 128);
  }
  octal(0, 136, 12);
  block.fill(" ", 148, 156);
  block.write({ file: "0", folder: "5" }[entry.kind], 156, "latin1");
  block.write("ustar\0" + "00", 257, "latin1");
  octal(0, 329, 8);
  octal(0, 337, 8);
  block.write(prefix, 345);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return block;
}

/** Splits a path at a slash into a prefix of at most 155 bytes and a name of at most 100 bytes. */
function splitPath(path: string): readonly [prefix: string, name: string] {
  if (Buffer.byteLength(path) <= 100) return ["", path];
  for (let at = path.indexOf("/"); at >= 0; at = path.indexOf("/", at + 1)) {
    const [prefix, name] = [path.slice(0, at), path.slice(at + 1)];
    if (name !== "" && Buffer.byteLength(name) <= 100 && Buffer.byteLength(prefix) <= 155) return [prefix, name];
  }
  throw new SconceError("image_invalid", `the path ${path} is too long for an archive`);
}
