/** Contents that `sconce compile` adds to an executable. */
import type { LibraryPack } from "../../machine/libtorch/pack.ts";
import type { Manifest, ModelConfig } from "../store/manifest.ts";

export interface ProgramContents {
  /** Build of libtorch that the addon was compiled against, e.g. `2.13.0+cpu`. */
  readonly torch: string;
  /** The addon, with or without libtorch. `beside`: both are in the folder `lib` beside the executable. */
  readonly libraries: LibraryPack | "beside";
}

/** Contents of an executable with the full command line, which uses the model store. */
export interface CommandLineContents extends ProgramContents {
  /** sconce's sources, for compiling executables and for the types of models. */
  readonly sources: SourceArchive;
}

/** A tar archive compressed with zstd. */
export interface SourceArchive {
  /** Path inside the executable. */
  readonly path: string;
  /** SHA-256 in hex. */
  readonly digest: string;
}

/** Contents of an executable that serves one model. */
export interface Contents extends ProgramContents {
  /** `beside`: the folder `model` beside the executable is a store with one model. */
  readonly model: EmbeddedModel | "beside";
}

export interface EmbeddedModel {
  readonly repository: string;
  readonly tag: string;
  readonly digest: string;
  /** Total size of all blobs in bytes. */
  readonly size: number;
  readonly manifest: Manifest;
  readonly config: ModelConfig;
  /** Path of each layer inside the executable, by title. */
  readonly layers: Readonly<Record<string, string>>;
}
