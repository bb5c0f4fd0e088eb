/** Compresses libraries into one file, in parts that are unpacked side by side; once for the same bytes. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
} from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { LibraryPack, PackedFile } from "../libraries/pack.ts";
import { sha256 } from "../libraries/sha256.ts";
import { onAllCores } from "../parallel.ts";
import type { LibraryFile } from "./library-files.ts";

/** Above level 9 it takes twice as long for 1 % less. */
const LEVEL = 9;
const CHUNK_BYTES = 8 * 1024 * 1024;
/** Of what `index.json` says; another one is another folder. */
const VERSION = 1;

const packedPrefix = "packed-";
const unfinishedPrefix = ".packing-";
const HOUR_MS = 3_600_000;
/** A pack that no executable was made with for so long is removed when another one is made. */
const UNUSED_MS = 30 * 24 * HOUR_MS;

export interface PackOptions {
  /** Keeps packs from one time to the next. */
  readonly cacheFolder: string;
  readonly onProgress: (doneBytes: number, totalBytes: number) => void;
}

/** @returns the pack, whose `path` is that of a file on the disk */
export async function packLibraries(
  files: readonly LibraryFile[],
  options: PackOptions,
): Promise<Omit<LibraryPack, "hasLibtorch">> {
  const described = await Promise.all(files.map(describe));
  const digest = await sha256(new TextEncoder().encode(JSON.stringify([VERSION, LEVEL, described])));
  const folder = join(options.cacheFolder, `${packedPrefix}${digest.slice(0, 16)}`);
  const path = join(folder, "pack.bin");
  const index = readIndex(folder);
  if (index !== undefined && Bun.file(path).size === packedSize(index)) {
    const now = new Date();
    utimesSync(folder, now, now);
    return { path, digest, files: index };
  }
  mkdirSync(options.cacheFolder, { recursive: true, mode: 0o700 });
  removeUnused(options.cacheFolder);
  const unfinished = mkdtempSync(join(options.cacheFolder, unfinishedPrefix));
  try {
    const packed = await compress(files, described, {
      path: join(unfinished, "pack.bin"),
      onProgress: options.onProgress,
    });
    await Bun.write(join(unfinished, "index.json"), JSON.stringify(packed));
    // Another process may have been faster, with the same bytes.
    rmSync(folder, { recursive: true, force: true });
    renameSync(unfinished, folder);
    return { path, digest, files: packed };
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
}

/** Packs of other versions, and what processes left that were killed. */
function removeUnused(cacheFolder: string): void {
  for (const name of readdirSync(cacheFolder)) {
    const folder = join(cacheFolder, name);
    const keptMs = name.startsWith(packedPrefix) ? UNUSED_MS : name.startsWith(unfinishedPrefix) ? HOUR_MS : Infinity;
    const { mtimeMs } = statSync(folder, { throwIfNoEntry: false }) ?? { mtimeMs: Infinity };
    if (Date.now() - mtimeMs > keptMs) rmSync(folder, { recursive: true, force: true });
  }
}

/** A file that is not packed yet: its parts and their digests. */
interface Described {
  readonly name: string;
  readonly size: number;
  readonly sha256: readonly string[];
}

async function describe(file: LibraryFile): Promise<Described> {
  const { size } = blobOf(file);
  return { name: file.name, size, sha256: await onAllCores(partsOf(file), async (part) => sha256(await part.bytes())) };
}

function blobOf({ content }: LibraryFile): Blob {
  return typeof content === "string" ? Bun.file(content) : new Blob([content]);
}

function partsOf(file: LibraryFile): Blob[] {
  const blob = blobOf(file);
  return Array.from({ length: Math.ceil(blob.size / CHUNK_BYTES) }, (_, i) =>
    blob.slice(i * CHUNK_BYTES, (i + 1) * CHUNK_BYTES),
  );
}

/** Writes the parts in their order, however the compression of each goes. */
async function compress(
  files: readonly LibraryFile[],
  described: readonly Described[],
  { path, onProgress }: { readonly path: string; readonly onProgress: PackOptions["onProgress"] },
): Promise<PackedFile[]> {
  const totalBytes = described.reduce((sum, { size }) => sum + size, 0);
  let doneBytes = 0;
  let offset = 0;
  const output = Bun.file(path).writer();
  const packed: PackedFile[] = [];
  for (const [i, file] of files.entries()) {
    const { name = "", size = 0, sha256: digests = [] } = described[i] ?? {};
    const parts = await onAllCores(partsOf(file), async (part) => {
      const compressed = await Bun.zstdCompress(await part.bytes(), { level: LEVEL });
      doneBytes += part.size;
      onProgress(doneBytes, totalBytes);
      return { compressed, size: part.size };
    });
    const chunks = parts.map(({ compressed, size }, part) => {
      const chunk = { offset, packedSize: compressed.length, size, sha256: digests[part] ?? "" };
      output.write(compressed);
      offset += compressed.length;
      return chunk;
    });
    packed.push({ name, size, chunks });
  }
  await output.end();
  return packed;
}

const indexSchema: z.ZodType<PackedFile[]> = z.array(
  z.object({
    name: z.string(),
    size: z.int(),
    chunks: z.array(z.object({ offset: z.int(), packedSize: z.int(), size: z.int(), sha256: z.string() })),
  }),
);

function readIndex(folder: string): PackedFile[] | undefined {
  const path = join(folder, "index.json");
  return existsSync(path) ? indexSchema.safeParse(JSON.parse(readFileSync(path, "utf8"))).data : undefined;
}

function packedSize(files: readonly PackedFile[]): number {
  return files.reduce((sum, { chunks }) => sum + chunks.reduce((of, { packedSize }) => of + packedSize, 0), 0);
}
