/** What `sconce compile` puts into an executable beside the program. */
import type { LibraryPack } from "../libraries/pack.ts";
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
