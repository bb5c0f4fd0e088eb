/** What `sconce compile` puts into an executable beside the program. */
import type { Manifest, ModelConfig } from "../store/manifest.ts";

export interface Contents {
  /** Of the libtorch that the addon was compiled against, e.g. `2.13.0+cpu`. */
  readonly torch: string;
  /** The addon, with or without libtorch; `beside`: both lie in the folder `lib` beside the executable. */
  readonly libraries: LibraryPack | "beside";
  /** `beside`: a store with one model lies in the folder `model` beside the executable. */
  readonly model: EmbeddedModel | "beside";
}

export interface EmbeddedModel {
  readonly repository: string;
  readonly tag: string;
  readonly digest: string;
  /** All blobs together, in bytes. */
  readonly size: number;
  readonly manifest: Manifest;
  readonly config: ModelConfig;
  /** By title: where each layer lies inside the executable. */
  readonly layers: Readonly<Record<string, string>>;
}

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
}

/** The file of the addon, in a pack and in `lib`. */
export const addonName = "sconce.node";

/** Bytes of a pack when it is unpacked. */
export function unpackedSize({ files }: LibraryPack): number {
  return files.reduce((sum, { size }) => sum + size, 0);
}
