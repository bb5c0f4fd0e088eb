/** Libraries that are compressed into one file: how they lie in it. */

export interface LibraryPack {
  /** Where it lies inside the executable. */
  readonly path: string;
  /** Hexadecimal: of names, sizes and digests of what is packed. */
  readonly digest: string;
  /** Whether libtorch is in it; if not, it is looked for at start. */
  readonly hasLibtorch: boolean;
  readonly files: readonly PackedFile[];
}

export interface PackedFile {
  readonly name: string;
  /** In bytes, unpacked. */
  readonly size: number;
  /** In the order of the file. */
  readonly chunks: readonly PackedChunk[];
}

/** A part of a file, compressed by itself (zstd), so that parts are packed, unpacked and checked side by side. */
export interface PackedChunk {
  /** Where it begins in the pack, and its bytes there. */
  readonly offset: number;
  readonly packedSize: number;
  /** Its bytes when unpacked, and their SHA-256 (hexadecimal). */
  readonly size: number;
  readonly sha256: string;
  /** Of the same bytes: what a copy of the executable may have lost shows in it, in a hundredth of the time. */
  readonly checksum: string;
}

/** XXH3, hexadecimal: tells of damage, not of what somebody meant to change. */
export function checksumOf(bytes: Uint8Array): string {
  return Bun.hash.xxHash3(bytes).toString(16);
}

/** The file of the addon, in a pack and in `lib`. */
export const addonName = "sconce.node";

/** Bytes of a pack when it is unpacked. */
export function unpackedSize({ files }: LibraryPack): number {
  return files.reduce((sum, { size }) => sum + size, 0);
}
