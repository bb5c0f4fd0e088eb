/** The model store: models on disk as an OCI image layout, which registry tools can read and write. */
import { SconceError } from "../../base/errors.ts";
import { storeLocation } from "../../machine/files/location.ts";
import { diskFault, isFull, requireSpace } from "./disk-fault.ts";
import { type IndexEntry, IndexFile } from "./index-file.ts";
import { Layout } from "./layout.ts";
import { findEntry } from "./lookup.ts";
import { annotations } from "./manifest.ts";
import { PackagedModel } from "./packaged-model.ts";
import { type PutOptions, type StagedPackage, stagePackage } from "./packaging.ts";
import { missingLayersOf, readConfig, readManifest, withoutWeights } from "./read-model.ts";
import { missingBytes, type ReceiveOptions, stageReceived } from "./receiving.ts";
import { checkRepository, checkTag, formatReference, generatedTag, latestTag, parseReference } from "./reference.ts";
import { type ModelSummary, sizeOf, summarize } from "./summary.ts";
import { type Stamps, type VerifyOptions, verifyLayers } from "./verification.ts";

export type { CopyProgress, LayerSource, PutOptions } from "./packaging.ts";
export type { ModelSummary } from "./summary.ts";

export interface PutResult {
  /** Digest of the model's manifest. */
  readonly digest: string;
  /** The tag made from the digest. */
  readonly tag: string;
  /** `repository:tag`, with the tag made from the digest. */
  readonly reference: string;
}

export interface RemoveResult {
  /** Removed names, as `repository:tag`. */
  readonly removed: readonly string[];
  /** Other names of the model in the same repository. */
  readonly remaining: readonly string[];
  /** Freed disk space in bytes; 0 if other names keep the model's files. */
  readonly freedBytes: number;
}

/** Names and properties of a model that is added to the index. */
interface TaggedModel {
  readonly repository: string;
  readonly tags: readonly string[];
  readonly tagsIfAbsent: readonly string[];
  readonly source?: string | undefined;
}

export class ModelStore {
  readonly #layout: Layout;

  constructor(home: string = storeLocation()) {
    this.#layout = new Layout(home);
  }

  /** Absolute path of the store's folder. `put` and `receive` create it. */
  get home(): string {
    return this.#layout.home;
  }

  /**
   * Adds a built model to the store. Points `latest`, the given tags and the tag made from its digest at the new
   * manifest. With `isVariant`, an existing `latest` stays. A kill at any moment and concurrent builds leave the store
   * intact.
   * @throws SconceError `usage` for a misspelled name or tag, `model_invalid` for a bad config or an unreadable file,
   * `store_unwritable`; the signal's reason when it is aborted
   */
  async put(options: PutOptions): Promise<PutResult> {
    checkRepository(options.repository);
    for (const tag of options.tags ?? []) checkTag(tag);
    const [moved, tagsIfAbsent] = options.isVariant ? [[], [latestTag]] : [[latestTag], []];
    return this.#explained(async () => {
      using workspace = this.#layout.openWorkspace();
      return await this.#commit({
        verb: "build",
        stage: (reuse) => stagePackage(this.#layout.blobs, options, { folder: workspace.path, reuse }),
        repository: options.repository,
        tags: [...moved, ...(options.tags ?? [])],
        tagsIfAbsent,
      });
    });
  }

  /**
   * Adds a model from a registry to the store, byte for byte. `latest` is set only if the repository lacks it, so that
   * pulling an old model does not change the default.
   * @throws SconceError `usage`, `model_invalid`, `registry_corrupt`, `store_unwritable`, errors of `fill`, or the
   * signal's reason
   */
  async receive(options: ReceiveOptions): Promise<PutResult> {
    const { repository } = options;
    checkRepository(repository);
    for (const tag of options.tags) checkTag(tag);
    return this.#explained(async () => {
      using workspace = this.#layout.openWorkspace();
      requireSpace(this.home, missingBytes(this.#layout.blobs, options));
      return await this.#commit({
        verb: "pull",
        stage: (reuse) => stageReceived(this.#layout.blobs, options, { folder: workspace.path, reuse }),
        repository: options.repository,
        tags: options.tags,
        tagsIfAbsent: [latestTag],
        source: options.source,
      });
    });
  }

  /**
   * The exact bytes of a model's manifest.
   * @throws SconceError `store_corrupt`
   */
  manifestBytes({ repository, digest }: PackagedModel): Promise<Uint8Array> {
    return this.#layout.blobs.read(this.#find(`${repository}@${digest}`));
  }

  blobPath(digest: string): string {
    return this.#layout.blobs.path(digest);
  }

  /**
   * Finds a model; without a reference, the newest build. Checks the digests of manifest and config, but only the sizes
   * of the other files: `verify` reads these.
   * @param options.weights false accepts a model that was pulled without weights
   * @throws SconceError `usage`, `model_not_found` (listing the models that exist), `model_invalid` (not a sconce
   * model, or a newer one), `store_corrupt`
   */
  async resolve(reference?: string, { weights = true }: { weights?: boolean } = {}): Promise<PackagedModel> {
    const entry = this.#find(reference);
    const manifest = await readManifest(this.#layout.blobs, entry);
    const config = await readConfig(this.#layout.blobs, entry, manifest);
    const layers = manifest.layers.map((layer) => ({
      mediaType: layer.mediaType,
      title: layer.annotations[annotations.title],
      digest: layer.digest,
      size: layer.size,
      path: this.#layout.blobs.path(layer.digest),
    }));
    const missingLayers = missingLayersOf(this.#layout.blobs, entry, layers);
    if (weights && missingLayers.length > 0) throw withoutWeights(entry);
    await Promise.all(
      layers.filter((layer) => !missingLayers.includes(layer)).map((layer) => this.#layout.blobs.check(layer)),
    );
    return new PackagedModel({
      ...entry,
      home: this.home,
      size: sizeOf(entry, manifest),
      manifest,
      config,
      layers,
      missingLayers,
    });
  }

  /** Whether the store has a repository with this name. */
  has(repository: string): boolean {
    return IndexFile.read(this.home)
      .entries()
      .some((entry) => entry.repository === repository);
  }

  /**
   * Checks the digests of all layers of a model. A layer that is unchanged since its last check is not read.
   * @returns for each layer a stamp (inode, size and times), for the next check
   * @throws SconceError `store_corrupt`, or the signal's reason when it is aborted
   */
  verify(model: PackagedModel, options: VerifyOptions = {}): Promise<Stamps> {
    return verifyLayers(model, { ...options, blobs: this.#layout.blobs, home: this.home });
  }

  /** All models, the most recent build first, without manifests of other tools. */
  async list(): Promise<ModelSummary[]> {
    const groups = Map.groupBy(IndexFile.read(this.home).entries(), (entry) => `${entry.repository}@${entry.digest}`);
    const summaries = await Promise.all([...groups.values()].map((entries) => summarize(this.#layout.blobs, entries)));
    return summaries
      .filter((summary) => summary !== undefined)
      .sort((a, b) => (b.created?.getTime() ?? 0) - (a.created?.getTime() ?? 0));
  }

  /**
   * Points a new name at a model. If the name exists, it moves.
   * @param target `name[:tag]`
   * @returns `target` with its tag
   * @throws SconceError `usage`, `model_not_found`, `store_unwritable`
   */
  tag(source: string, target: string): string {
    const name = parseReference(target);
    if (!("tag" in name)) throw new SconceError("usage", `${JSON.stringify(target)} is a digest; expected name[:tag]`);
    // Fails for an unknown model before the lock's file is created in a store that does not exist.
    this.#find(source);
    try {
      this.#layout.commit({
        blobs: [],
        change: (index) => index.set({ ...this.#find(source, index), ...name }),
      });
    } catch (error) {
      throw diskFault(error, this.home) ?? error;
    }
    return `${name.repository}:${name.tag}`;
  }

  /**
   * Removes a tag, or for a digest all tags of the model in the repository. Then removes blobs that no manifest needs.
   * Processes that have a blob open can still read it. Works on a full disk.
   * @throws SconceError `usage`, `model_not_found`, `store_unwritable`
   */
  remove(reference: string): RemoveResult {
    // Fails for an unknown model before the lock's file is created in a store that does not exist.
    this.#find(reference);
    try {
      return this.#remove(reference);
    } catch (error) {
      throw diskFault(error, this.home) ?? error;
    }
  }

  #remove(reference: string): RemoveResult {
    using _lock = this.#layout.lock();
    this.#layout.sweep();
    const index = IndexFile.read(this.home);
    const found = this.#find(reference, index);
    const byDigest = "digest" in parseReference(reference);
    const ofModel = index
      .entries()
      .filter((entry) => entry.repository === found.repository && entry.digest === found.digest);
    const own = generatedTag(found.digest);
    const isLastName = found.tag !== own && ofModel.every(({ tag }) => tag === found.tag || tag === own);
    // The tag made from the digest alone does not keep a model: it is removed together with the last other tag.
    const removedEntries = ofModel.filter((entry) => byDigest || isLastName || entry.tag === found.tag);
    for (const entry of removedEntries) index.delete(formatReference(entry));
    let freedBytes = 0;
    try {
      index.write();
    } catch (error) {
      if (!isFull(error)) throw error;
      // A full disk has no space for a second index.json, so blobs are deleted before it is written. The manifest
      // stays, so that `remove` can run again after a kill.
      freedBytes = this.#layout.collect(index, found.digest);
      index.write();
    }
    return {
      removed: removedEntries.map(formatReference),
      remaining: ofModel.filter((entry) => !removedEntries.includes(entry)).map(formatReference),
      freedBytes: freedBytes + this.#layout.collect(index),
    };
  }

  #find(reference: string | undefined, index = IndexFile.read(this.home)): IndexEntry {
    return findEntry(index.entries(), reference === undefined ? undefined : parseReference(reference), this.home);
  }

  /**
   * Moves a model's blobs into the store and points its tags at the manifest.
   * @param verb `build` or `pull`, for the error message
   * @param stage writes the blobs to temporary files; `reuse` false writes even blobs that the store has
   */
  async #commit({
    verb,
    stage,
    ...model
  }: TaggedModel & { verb: string; stage: (reuse: boolean) => Promise<StagedPackage> }): Promise<PutResult> {
    const { repository, source } = model;
    // Another process may remove a blob of the store before the index needs it. So the second attempt writes copies of
    // all blobs.
    for (const reuse of [true, false]) {
      const { manifest, blobs } = await stage(reuse);
      const generated = generatedTag(manifest.digest);
      const change = (index: IndexFile) => {
        const existing = index.entries().filter((entry) => entry.repository === repository);
        const absent = model.tagsIfAbsent.filter((tag) => !existing.some((entry) => entry.tag === tag));
        const created = new Date();
        for (const tag of [generated, ...model.tags, ...absent]) {
          index.set({ repository, tag, created, source, ...manifest });
        }
      };
      if (!this.#layout.commit({ blobs, change })) continue;
      return { digest: manifest.digest, tag: generated, reference: `${repository}:${generated}` };
    }
    throw new SconceError(
      "store_corrupt",
      `another process removed files of ${repository} during the ${verb}; ${verb} it again`,
    );
  }

  /** Runs work that writes to the store. @throws the errors of the work; an error of the disk with a fix */
  #explained<T>(work: () => Promise<T>): Promise<T> {
    return work().catch((error: unknown) => {
      throw diskFault(error, this.home) ?? error;
    });
  }
}
