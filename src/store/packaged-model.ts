/** One packaged model that was found: its manifest and config, and where its layers lie. */
import { SconceError } from "../errors.ts";
import { readIntact } from "./blobs.ts";
import { type LayerMediaType, type Manifest, type ModelConfig, mediaTypes } from "./manifest.ts";

/** One file of a packaged model. */
export interface PackagedLayer {
  readonly mediaType: LayerMediaType;
  /** The file's name as it was packed: a relative path, for example `digits.pt`. */
  readonly title: string;
  readonly digest: string;
  /** In bytes. */
  readonly size: number;
  /** Absolute path of its content; named by its digest, so it has no extension. */
  readonly path: string;
}

interface PackagedModelInit {
  repository: string;
  tag: string;
  digest: string;
  created: Date | undefined;
  size: number;
  copies?: readonly string[];
  manifest: Manifest;
  config: ModelConfig;
  layers: readonly PackagedLayer[];
  lacking?: readonly PackagedLayer[];
}

export class PackagedModel {
  readonly repository: string;
  /** The tag that was asked for; the generated one when a digest or nothing was asked for. */
  readonly tag: string;
  /** The manifest's digest: `sha256:` and 64 hex digits. */
  readonly digest: string;
  /** When it was last built; undefined when the store was filled by a tool that doesn't say. */
  readonly created: Date | undefined;
  /** All blobs together, in bytes. */
  readonly size: number;
  /** `host/repository` of the registries that it came from or went to, the last first. */
  readonly copies: readonly string[];
  readonly manifest: Manifest;
  readonly config: ModelConfig;
  /** In the manifest's order, by title. */
  readonly layers: readonly PackagedLayer[];
  /** Those that the store lacks, since it pulled the model for a front. */
  readonly lacking: readonly PackagedLayer[];

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
    this.lacking = init.lacking ?? [];
  }

  /** As another process finds the same model, whatever its tags stand for by then. */
  get byDigest(): string {
    return `${this.repository}@${this.digest}`;
  }

  /** `repository:tag` */
  get reference(): string {
    return `${this.repository}:${this.tag}`;
  }

  /**
   * The model's code.
   *
   * @throws SconceError `store_corrupt` when it has none, or more than one.
   */
  get bundle(): PackagedLayer {
    const bundles = this.layersOf(mediaTypes.bundle);
    const [bundle] = bundles;
    if (bundle && bundles.length === 1) return bundle;
    throw this.#corrupt(`has ${bundles.length} layers of type ${mediaTypes.bundle}; expected 1`);
  }

  /**
   * The text of the bundle, checked against its digest each time that it is read.
   *
   * @throws SconceError `store_corrupt`
   */
  async code(): Promise<string> {
    return new TextDecoder().decode(await readIntact(this.bundle));
  }

  /** The path of the outputs of the example; undefined where the build kept none. */
  get golden(): string | undefined {
    return this.layersOf(mediaTypes.golden)[0]?.path;
  }

  layersOf(mediaType: LayerMediaType): readonly PackagedLayer[] {
    return this.layers.filter((layer) => layer.mediaType === mediaType);
  }

  /**
   * The layer of that title.
   *
   * @throws SconceError `store_corrupt` when there is none.
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
