/** A packaged model in the store, with its manifest, config and the paths of its files. */
import { SconceError } from "../../base/errors.ts";
import { readIntact } from "./blobs.ts";
import { type LayerMediaType, type Manifest, type ModelConfig, mediaTypes } from "./manifest.ts";

/** A layer, which is one file of a packaged model. */
export interface PackagedLayer {
  readonly mediaType: LayerMediaType;
  /** Path of the file in the model's folder, for example `digits.pt`. */
  readonly title: string;
  readonly digest: string;
  readonly size: number;
  /** Absolute path of the blob. The file's name is its digest, without an extension. */
  readonly path: string;
}

type PackagedModelInit = Pick<
  PackagedModel,
  "repository" | "tag" | "digest" | "created" | "size" | "manifest" | "config" | "layers"
> &
  Partial<Pick<PackagedModel, "copies" | "missingLayers">>;

export class PackagedModel {
  readonly repository: string;
  /** The tag in the request; the generated tag if the request had a digest or no reference. */
  readonly tag: string;
  /** Digest of the manifest: `sha256:` and 64 hex digits. */
  readonly digest: string;
  /** Time of the last build; undefined when another tool stored the model without a time. */
  readonly created: Date | undefined;
  /** Total size of all blobs in bytes. */
  readonly size: number;
  /** Repositories of registries that have the model, as `host/repository`, the most recent first. */
  readonly copies: readonly string[];
  readonly manifest: Manifest;
  readonly config: ModelConfig;
  /** All layers in the order of the manifest, which is by title. */
  readonly layers: readonly PackagedLayer[];
  /** Layers that the store lacks, because the model was pulled without weights for `--role front`. */
  readonly missingLayers: readonly PackagedLayer[];

  constructor(init: PackagedModelInit) {
    this.repository = init.repository;
    this.tag = init.tag;
    this.digest = init.digest;
    this.created = init.created;
    this.size = init.size;
    this.copies = init.copies ?? [];
    this.manifest = init.manifest;
    this.config = init.config;
    this.layers = init.layers;
    this.missingLayers = init.missingLayers ?? [];
  }

  /** Immutable reference to this model: a tag may move, the digest does not. */
  get byDigest(): string {
    return `${this.repository}@${this.digest}`;
  }

  /** The reference `repository:tag`. */
  get reference(): string {
    return `${this.repository}:${this.tag}`;
  }

  /**
   * The layer with the model's code.
   * @throws SconceError `store_corrupt` unless there is exactly one
   */
  get bundle(): PackagedLayer {
    const bundles = this.layersOf(mediaTypes.bundle);
    const [bundle] = bundles;
    if (bundle && bundles.length === 1) return bundle;
    throw this.#corrupt(`has ${bundles.length} layers of type ${mediaTypes.bundle}; expected 1`);
  }

  /**
   * Reads the bundle's text. Checks its digest at each call.
   * @throws SconceError `store_corrupt`
   */
  async code(): Promise<string> {
    return new TextDecoder().decode(await readIntact(this.bundle));
  }

  /** Path of the file with the example's outputs, for comparison; undefined when the build stored none. */
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
