/** What `sconce compile` puts into an executable beside the program. */
import type { LibraryPack } from "../libraries/pack.ts";
import type { Manifest, ModelConfig } from "../store/manifest.ts";

export interface ProgramContents {
  /** Of the libtorch that the addon was compiled against, e.g. `2.13.0+cpu`. */
  readonly torch: string;
  /** The addon, with or without libtorch; `beside`: both lie in the folder `lib` beside the executable. */
  readonly libraries: LibraryPack | "beside";
}

/** Of an executable with the whole command line, for models of the store. */
export interface CommandLineContents extends ProgramContents {
  /** Its own, from which it compiles executables, and which have the types of models. */
  readonly sources: SourceArchive;
}

/** Compressed: tar, then zstd. */
export interface SourceArchive {
  /** Where it lies inside the executable. */
  readonly path: string;
  /** SHA-256, hexadecimal. */
  readonly digest: string;
}

/** Of an executable that serves one model. */
export interface Contents extends ProgramContents {
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
