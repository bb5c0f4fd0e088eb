/** Format of a pack: libraries compressed into one file. */

export interface LibraryPack {
  /** Path inside the executable. */
  readonly path: string;
  /** Hex digest over names, sizes and digests of the packed files. */
  readonly digest: string;
  /** Whether the pack contains libtorch; if not, the server searches for one at start. */
  readonly hasLibtorch: boolean;
  readonly files: readonly PackedFile[];
}

export interface PackedFile {
  readonly name: string;
  /** Unpacked size in bytes. */
  readonly size: number;
  /** In file order. */
  readonly chunks: readonly PackedChunk[];
}

/** A part of a file, compressed separately with zstd, so that parts are packed, unpacked and checked in parallel. */
export interface PackedChunk {
  /** Position in the pack. */
  readonly offset: number;
  /** Compressed size in bytes. */
  readonly packedSize: number;
  /** Unpacked size in bytes. */
  readonly size: number;
  /** SHA-256 of the unpacked bytes, in hex. */
  readonly sha256: string;
  /**
   * Fast checksum of the unpacked bytes: detects a damaged copy of the executable in a hundredth of the time of
   * SHA-256.
   */
  readonly checksum: string;
}

/** XXH3 in hex. Detects accidental damage, not tampering. */
export function checksumOf(bytes: Uint8Array): string {
  return Bun.hash.xxHash3(bytes).toString(16);
}

/** File name of the addon, in a pack and in `lib`. */
export const addonName = "sconce.node";

/** Total size of a pack's files after unpacking, in bytes. */
export function unpackedSize({ files }: LibraryPack): number {
  return files.reduce((sum, { size }) => sum + size, 0);
}
