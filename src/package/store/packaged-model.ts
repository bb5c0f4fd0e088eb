/** A model in the store: its manifest, its config and the paths of its files. */
import { SconceError } from "../../base/errors.ts";
import { readIntact } from "./blobs.ts";
import { type LayerMediaType, type Manifest, type ModelConfig, mediaTypes } from "./manifest.ts";

/** A file of a model in the store. */
export interface PackagedLayer {
  readonly mediaType: LayerMediaType;
  /** Path of the file in the model's folder, for example `digits.pt`. */
  readonly title: string;
  readonly digest: string;
  readonly size: number;
  /** Absolute path of the blob, which is named by its digest and has no extension. */
  readonly path: string;
}

type PackagedModelInit = Pick<
  PackagedModel,
  "repository" | "tag" | "digest" | "created" | "size" | "manifest" | "config" | "layers"
> &
  Partial<Pick<PackagedModel, "home" | "missingLayers">>;

export class PackagedModel {
  /** Folder of the store that has the model; undefined for a model inside an executable. */
  declare readonly home: string | undefined;
  declare readonly repository: string;
  /** The tag of the reference, `latest` by default. For a digest or no reference, the tag made from the digest. */
  declare readonly tag: string;
  /** Digest of the manifest: `sha256:` and 64 hex digits. */
  declare readonly digest: string;
  /** Time of the last build or pull; undefined when another tool stored the model without a time. */
  declare readonly created: Date | undefined;
  /** Total size of manifest, config and layers in bytes. */
  declare readonly size: number;
  declare readonly manifest: Manifest;
  declare readonly config: ModelConfig;
  /** Layers in the manifest's order, which is by title, including `missingLayers`. */
  declare readonly layers: readonly PackagedLayer[];
  /** Layers whose files the store lacks, because the model was pulled without weights. */
  declare readonly missingLayers: readonly PackagedLayer[];

  constructor(init: PackagedModelInit) {
    Object.assign(this, { home: undefined, missingLayers: [], ...init });
  }

  /** The reference `repository@sha256:…`. A tag may move to another model, a digest cannot. */
  get byDigest(): string {
    return `${this.repository}@${this.digest}`;
  }

  get reference(): string {
    return `${this.repository}:${this.tag}`;
  }

  /**
   * The layer with the model's bundled code.
   * @throws SconceError `store_corrupt` unless there is exactly one
   */
  get bundle(): PackagedLayer {
    const bundles = this.layersOf(mediaTypes.bundle);
    const [bundle] = bundles;
    if (bundle && bundles.length === 1) return bundle;
    throw this.#corrupt(`has ${bundles.length} layers of type ${mediaTypes.bundle}; expected 1`);
  }

  /**
   * Reads the text of the bundled code, and checks its digest.
   * @throws SconceError `store_corrupt`
   */
  async code(): Promise<string> {
    return new TextDecoder().decode(await readIntact(this.bundle));
  }

  /** Path of the file with outputs that the build computed for the model's example; undefined when it has none. */
  get golden(): string | undefined {
    return this.layersOf(mediaTypes.golden)[0]?.path;
  }

  layersOf(mediaType: LayerMediaType): readonly PackagedLayer[] {
    return this.layers.filter((layer) => layer.mediaType === mediaType);
  }

  /**
   * Finds the layer with a title.
   * @throws SconceError `store_corrupt` when there is none
   */
  layer(title: string): PackagedLayer {
    const layer = this.layers.find((candidate) => candidate.title === title);
    if (layer) return layer;
    const titles = this.layers.map((candidate) => candidate.title).join(", ");
    throw this.#corrupt(`has no layer ${JSON.stringify(title)} (layers: ${titles})`);
  }

  #corrupt(what: string): SconceError {
    return new SconceError("store_corrupt", `model ${this.reference} ${what}; build it again`);
  }
}
