/**
 * Compresses libraries into one file, the pack, in chunks that can be unpacked in parallel. The pack is kept in a cache
 * folder and reused for the same libraries.
 */
import { mkdirSync, readFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { onAllCores } from "../../base/parallel.ts";
import { madeOnce } from "../../machine/files/made-once.ts";
import { cacheFault, requirePrivate } from "../../machine/libtorch/cache-folder.ts";
import { checksumOf, type LibraryPack, type PackedFile, sha256 } from "../../machine/libtorch/pack.ts";
import type { LibraryFile } from "./library-files.ts";

/** zstd level. Higher levels take twice as long and save 1 % of the size. */
const LEVEL = 9;
const CHUNK_BYTES = 8 * 1024 * 1024;
/** Version of the pack's format. A part of the digest that names a pack in the cache, so that older packs stay unused. */
const VERSION = 6;

const packName = "pack.bin";
const indexName = "index.json";

export interface PackOptions {
  /** Folder that keeps packs for reuse. */
  readonly cacheFolder: string;
  /** Called with the size of the files before their compression. Not called if the cache has the pack. */
  readonly onPacking?: ((bytes: number) => void) | undefined;
  /** Level of zstd. An existing pack is reused even if its level differs. */
  readonly level?: number;
}

/** Compresses the files, or finds their pack in the cache. @returns the pack; its `path` is a file on disk */
export async function packLibraries(
  files: readonly LibraryFile[],
  options: PackOptions,
): Promise<Omit<LibraryPack, "hasLibtorch">> {
  const described = await Promise.all(files.map(describe));
  const digest = await sha256(new TextEncoder().encode(JSON.stringify([VERSION, described])));
  const folder = join(options.cacheFolder, `packed-${digest.slice(0, 16)}`);
  try {
    mkdirSync(options.cacheFolder, { recursive: true, mode: 0o700 });
    const make = async (temporary: string) => {
      mkdirSync(temporary, { mode: 0o700 });
      const packed = await compress(files, described, { ...options, path: join(temporary, packName) });
      await Bun.write(join(temporary, indexName), JSON.stringify(packed));
    };
    await madeOnce(folder, make, ".packing-");
    requirePrivate(folder);
    const packed = indexSchema.parse(JSON.parse(readFileSync(join(folder, indexName), "utf8")));
    return { path: join(folder, packName), digest, files: packed };
  } catch (error) {
    throw cacheFault(error, options.cacheFolder);
  }
}

interface Described {
  readonly name: string;
  readonly size: number;
  readonly sha256: readonly string[];
}

async function describe(file: LibraryFile): Promise<Described> {
  const { size } = Bun.file(file.path);
  return { name: file.name, size, sha256: await onAllCores(partsOf(file), async (part) => sha256(await part.bytes())) };
}

function partsOf(file: LibraryFile): Blob[] {
  const blob = Bun.file(file.path);
  return Array.from({ length: Math.ceil(blob.size / CHUNK_BYTES) }, (_, i) =>
    blob.slice(i * CHUNK_BYTES, (i + 1) * CHUNK_BYTES),
  );
}

/** Compresses the chunks of each file in parallel and writes them in order. */
async function compress(
  files: readonly LibraryFile[],
  described: readonly Described[],
  { path, onPacking, level = LEVEL }: PackOptions & { readonly path: string },
): Promise<PackedFile[]> {
  onPacking?.(described.reduce((sum, { size }) => sum + size, 0));
  let offset = 0;
  await using output = await open(path, "wx", 0o600);
  const packed: PackedFile[] = [];
  for (const [i, file] of files.entries()) {
    const { name = "", size = 0 } = described[i] ?? {};
    const parts = await onAllCores(partsOf(file), async (part) => {
      const bytes = await part.bytes();
      const compressed = await Bun.zstdCompress(bytes, { level });
      return { compressed, size: part.size, checksum: checksumOf(bytes) };
    });
    const chunks = parts.map(({ compressed, size, checksum }) => {
      const chunk = { offset, packedSize: compressed.length, size, checksum };
      offset += compressed.length;
      return chunk;
    });
    for (const { compressed } of parts) await output.writeFile(compressed);
    packed.push({ name, size, chunks });
  }
  return packed;
}

const indexSchema = z.array(
  z.object({
    name: z.string(),
    size: z.int(),
    chunks: z.array(z.object({ offset: z.int(), packedSize: z.int(), size: z.int(), checksum: z.string() })),
  }),
);
