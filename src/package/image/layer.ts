/** Makes a layer of an image: a gzip-compressed tar archive, named by its digest. */
import { open } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { StagedBlob } from "../store/blobs.ts";
import { type TarEntry, tar } from "./tar.ts";

const compress = promisify(gzip);

/**
 * Uncompressed size in bytes of one gzip member. A gzip file is a sequence of members, which are compressed in
 * parallel.
 */
const memberBytes = 4 * 1024 * 1024;
/**
 * gzip level. Level 1 takes a third of the time and makes libraries a third larger. Levels above 6 gain almost nothing.
 */
const LEVEL = 6;

export interface LayerFiles {
  /** Title of the layer in messages and in the image's history. */
  readonly title: string;
  /** Files of the layer in any order. Missing parent folders are added. */
  readonly entries: readonly TarEntry[];
}

/** Writes a compressed layer to a new file in `folder`. Equal files give equal bytes. */
export async function stageLayer(files: LayerFiles, folder: string): Promise<StagedBlob & { readonly diffId: string }> {
  const entries = arranged(files.entries);
  const stagedPath = join(folder, crypto.randomUUID());
  const [plain, compressed] = [new Bun.CryptoHasher("sha256"), new Bun.CryptoHasher("sha256")];
  await using output = await open(stagedPath, "wx", 0o644);
  let size = 0;
  const members: Promise<Buffer>[] = [];
  const writeNext = async () => {
    const member = await members.shift();
    if (member === undefined) return;
    compressed.update(member);
    size += member.length;
    await output.writeFile(member);
  };
  try {
    for await (const block of inBlocks(tar(entries))) {
      plain.update(block);
      members.push(compress(block, { level: LEVEL }));
      if (members.length > availableParallelism()) await writeNext();
    }
    while (members.length > 0) await writeNext();
  } finally {
    await Promise.allSettled(members);
  }
  await output.sync();
  return { digest: `sha256:${compressed.digest("hex")}`, size, stagedPath, diffId: `sha256:${plain.digest("hex")}` };
}

/** The entries sorted by path, with their parent folders added. */
function arranged(entries: readonly TarEntry[]): TarEntry[] {
  const all = new Map<string, TarEntry>();
  for (const { path } of entries) {
    for (let folder = dirname(path); folder !== "."; folder = dirname(folder)) {
      all.set(folder, { kind: "folder", path: folder, mode: 0o755 });
    }
  }
  for (const entry of entries) all.set(entry.path, entry);
  return [...all.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Splits a stream into blocks of `memberBytes`. Each block is a new array, because compression reads it later. */
async function* inBlocks(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let block = new Uint8Array(memberBytes);
  let filled = 0;
  for await (const chunk of chunks) {
    for (let done = 0; done < chunk.length; ) {
      const part = chunk.subarray(done, done + memberBytes - filled);
      block.set(part, filled);
      done += part.length;
      filled += part.length;
      if (filled < memberBytes) continue;
      yield block;
      block = new Uint8Array(memberBytes);
      filled = 0;
    }
  }
  if (filled > 0) yield block.subarray(0, filled);
}
