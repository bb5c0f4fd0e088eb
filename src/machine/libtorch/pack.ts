/** Format of a pack: one file with compressed libraries, embedded in an executable. */

export interface LibraryPack {
  /** Path of the pack: inside the executable, or of the file that is to be embedded. */
  readonly path: string;
  /** Hex digest of the names, sizes and digests of the packed files. */
  readonly digest: string;
  /** Whether the pack contains libtorch. Without it, the server searches for a libtorch at start. */
  readonly hasLibtorch: boolean;
  readonly files: readonly PackedFile[];
}

export interface PackedFile {
  readonly name: string;
  /** Unpacked size in bytes. */
  readonly size: number;
  readonly chunks: readonly PackedChunk[];
}

/**
 * A piece of a library file. Chunks are compressed separately with zstd, so that they can be packed, unpacked and
 * checked in parallel.
 */
export interface PackedChunk {
  /** Byte position in the pack. */
  readonly offset: number;
  /** Compressed size in bytes. */
  readonly packedSize: number;
  /** Unpacked size in bytes. */
  readonly size: number;
  /** Fast checksum of the unpacked bytes, which finds a damaged copy of the executable. */
  readonly checksum: string;
}

/** XXH3 of the bytes in hex. It detects accidental damage, not tampering. */
export function checksumOf(bytes: Uint8Array): string {
  return Bun.hash.xxHash3(bytes).toString(16);
}

/** File name of the addon, in a pack and in `lib`. */
export const addonName = "sconce.node";

/** Total size of a pack's files after unpacking, in bytes. */
export function unpackedSize({ files }: LibraryPack): number {
  return files.reduce((sum, { size }) => sum + size, 0);
}

/** The SHA-256 of the bytes in hex, computed on another thread. */
export async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  return Buffer.from(await crypto.subtle.digest("SHA-256", bytes)).toString("hex");
}
