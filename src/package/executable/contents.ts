/** Types that describe the contents of an executable made by `sconce compile`. */
import type { LibraryPack } from "../../machine/libtorch/pack.ts";
import type { Manifest, ModelConfig } from "../store/manifest.ts";

export interface ProgramContents {
  /** Version of libtorch that the addon was compiled against, e.g. `2.13.0+cpu`. */
  readonly torch: string;
  /** The native addon, with or without libtorch. `beside`: both are in the folder `lib` beside the executable. */
  readonly libraries: LibraryPack | "beside";
  /** Path of the addon for pictures. */
  readonly pixels: string;
}

/** Contents of an executable with all commands, which uses the model store. */
export interface CommandLineContents extends ProgramContents {
  /** sconce's own sources, which commands of the executable need, such as `compile` and `init`. */
  readonly sources: SourceArchive;
}

/** A tar archive compressed with zstd. */
export interface SourceArchive {
  /** Path of the archive inside the executable. */
  readonly path: string;
  /** SHA-256 of the archive in hex. */
  readonly digest: string;
}

/** Contents of an executable that serves one model. */
export interface Contents extends ProgramContents {
  /** The model. `beside`: the folder `model` beside the executable is a store with one model. */
  readonly model: EmbeddedModel | "beside";
}

export interface EmbeddedModel {
  readonly repository: string;
  readonly tag: string;
  readonly digest: string;
  /** Total size of manifest, config and files in bytes. */
  readonly size: number;
  readonly manifest: Manifest;
  readonly config: ModelConfig;
  /** Path of each file of the model inside the executable, by its relative path in the model. */
  readonly layers: Readonly<Record<string, string>>;
}
