/** The model store: models on disk as an OCI image layout, which registry tools can read and write. */
import { existsSync, mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { SconceError } from "../../base/errors.ts";
import { replaceFile, syncPath } from "../../machine/files/durable.ts";
import { storeLocation } from "../../machine/files/location.ts";
import { acquireLock } from "../../machine/files/lock.ts";
import { Blobs, digestOf } from "./blobs.ts";
import { diskFault, isFull, requireSpace } from "./disk-fault.ts";
import { referencedDigests } from "./garbage.ts";
import { folderDigest, type IndexEntry, IndexFile } from "./index-file.ts";
import { findEntry, findUnnamed } from "./lookup.ts";
import { annotations, ociLayout } from "./manifest.ts";
import { PackagedModel } from "./packaged-model.ts";
import { type PutOptions, type StagedPackage, stagePackage } from "./packaging.ts";
import { missingLayersOf, readConfig, readManifest, withoutWeights } from "./read-model.ts";
import { missingBytes, type ReceiveOptions, stageReceived } from "./receiving.ts";
import { checkRepository, checkTag, formatReference, generatedTag, latestTag, parseReference } from "./reference.ts";
import { type ModelSummary, sizeOf, summarize } from "./summary.ts";
import { type Stamps, type VerifyOptions, verifyLayers } from "./verification.ts";
import { Workspace } from "./workspace.ts";

const lockTimeoutMs = 30_000;

/** Milliseconds after which an unfinished download is deleted. */
const maxPartialAgeMs = 7 * 24 * 3600 * 1000;

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
  readonly folder?: string | undefined;
}

export class ModelStore {
  /** Absolute path of the store's folder. `put` and `receive` create it. */
  readonly home: string;
  readonly #blobs: Blobs;

  constructor(home: string = storeLocation()) {
    this.home = resolve(home);
    this.#blobs = new Blobs(this.home);
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
    try {
      return await this.#put(options);
    } catch (error) {
      throw diskFault(error, this.home) ?? error;
    }
  }

  async #put(options: PutOptions): Promise<PutResult> {
    using workspace = this.#openWorkspace();
    const [moved, tagsIfAbsent] = options.isVariant ? [[], [latestTag]] : [[latestTag], []];
    return await this.#commit(workspace, {
      verb: "build",
      stage: (reuse) => stagePackage(this.#blobs, options, { folder: workspace.folder, reuse }),
      repository: options.repository,
      tags: [...moved, ...(options.tags ?? [])],
      tagsIfAbsent,
      folder: options.folder === undefined ? undefined : folderDigest(options.folder),
    });
  }

  /**
   * Adds a model from a registry to the store, byte for byte. `latest` is set only if the repository lacks it, so that
   * pulling an old model does not change the default. An interrupted download can be resumed for a week.
   * @throws SconceError `usage`, `model_invalid`, `registry_corrupt`, `store_unwritable`, errors of `fill`, or the
   * signal's reason
   */
  async receive(options: ReceiveOptions): Promise<PutResult> {
    const { repository } = options;
    checkRepository(repository);
    for (const tag of options.tags) checkTag(tag);
    const digest = digestOf(options.manifest);
    try {
      return await this.#receive(options, digest);
    } catch (error) {
      throw diskFault(error, this.home) ?? error;
    }
  }

  async #receive(options: ReceiveOptions, digest: string): Promise<PutResult> {
    using workspace = this.#openWorkspace(digest.slice("sha256:".length));
    requireSpace(this.home, missingBytes(this.#blobs, options, workspace.folder));
    return await this.#commit(workspace, {
      verb: "pull",
      stage: (reuse) => stageReceived(this.#blobs, options, { folder: workspace.folder, reuse }),
      repository: options.repository,
      tags: options.tags,
      tagsIfAbsent: [latestTag],
      source: options.source,
    });
  }

  /**
   * The exact bytes of a model's manifest.
   * @throws SconceError `store_corrupt`
   */
  manifestBytes({ repository, digest }: PackagedModel): Promise<Uint8Array> {
    return this.#blobs.read(this.#find(`${repository}@${digest}`));
  }

  blobPath(digest: string): string {
    return this.#blobs.path(digest);
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
    const manifest = await readManifest(this.#blobs, entry);
    const config = await readConfig(this.#blobs, entry, manifest);
    const layers = manifest.layers.map((layer) => ({
      mediaType: layer.mediaType,
      title: layer.annotations[annotations.title],
      digest: layer.digest,
      size: layer.size,
      path: this.#blobs.path(layer.digest),
    }));
    const missingLayers = missingLayersOf(this.#blobs, entry, layers);
    if (weights && missingLayers.length > 0) throw withoutWeights(entry);
    await Promise.all(
      layers.filter((layer) => !missingLayers.includes(layer)).map((layer) => this.#blobs.check(layer)),
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
   * The name of the model that a command uses if the user gives none: the newest build of the current folder, otherwise
   * the only model of the store.
   * @param folder the current folder
   * @param fix text in the error message about several models
   * @throws SconceError `usage` if the store has several models, `model_not_found` if it has none
   */
  unnamed(folder: string, fix?: string): string {
    const entries = IndexFile.read(this.home).entries();
    return formatReference(findUnnamed(entries, { folder: folderDigest(folder), home: this.home, fix }));
  }

  /**
   * Checks the digests of all layers of a model. A layer that is unchanged since its last check is not read.
   * @returns for each layer a stamp (inode, size and times), for the next check
   * @throws SconceError `store_corrupt`, or the signal's reason when it is aborted
   */
  verify(model: PackagedModel, options: VerifyOptions = {}): Promise<Stamps> {
    return verifyLayers(model, { ...options, blobs: this.#blobs, home: this.home });
  }

  /** All models, the most recent build first, without manifests of other tools. */
  async list(): Promise<ModelSummary[]> {
    const groups = Map.groupBy(IndexFile.read(this.home).entries(), (entry) => `${entry.repository}@${entry.digest}`);
    const summaries = await Promise.all([...groups.values()].map((entries) => summarize(this.#blobs, entries)));
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
      using _lock = this.#lock();
      const index = IndexFile.read(this.home);
      index.set({ ...this.#find(source, index), ...name, folder: undefined });
      index.write();
    } catch (error) {
      throw diskFault(error, this.home) ?? error;
    }
    return `${name.repository}:${name.tag}`;
  }

  /**
   * Removes a tag, or for a digest all tags of the model in the repository. Then removes blobs that no manifest needs.
   * Processes that have a blob open can still read it. Works on a full disk.
   * @param options.allTags removes all tags of the model, even if the reference names one tag
   * @throws SconceError `usage`, `model_not_found`, `store_unwritable`
   */
  remove(reference: string, { allTags = false }: { allTags?: boolean } = {}): RemoveResult {
    // Fails for an unknown model before the lock's file is created in a store that does not exist.
    this.#find(reference);
    try {
      return this.#remove(reference, allTags);
    } catch (error) {
      throw diskFault(error, this.home) ?? error;
    }
  }

  #remove(reference: string, allTags: boolean): RemoveResult {
    using _lock = this.#lock();
    this.#sweep();
    const index = IndexFile.read(this.home);
    const found = this.#find(reference, index);
    const byDigest = allTags || "digest" in parseReference(reference);
    const ofModel = index
      .entries()
      .filter((entry) => entry.repository === found.repository && entry.digest === found.digest);
    const own = generatedTag(found.digest);
    const isLastName = found.tag !== own && ofModel.every(({ tag }) => tag === found.tag || tag === own);
    // The tag made from the digest alone does not keep a model: it is removed together with the last other tag.
    const removedEntries = ofModel.filter((entry) => byDigest || isLastName || entry.tag === found.tag);
    for (const entry of removedEntries) index.delete(entry);
    let freedBytes = 0;
    try {
      index.write();
    } catch (error) {
      if (!isFull(error)) throw error;
      // A full disk has no space for a second index.json, so blobs are deleted before it is written. The manifest
      // stays, so that `remove` can run again after a kill.
      freedBytes = this.#collect(index, found.digest);
      this.#sweep(0);
      index.write();
    }
    const nameOf = (entry: IndexEntry) => `${entry.repository}:${entry.tag}`;
    return {
      removed: removedEntries.map(nameOf),
      remaining: ofModel.filter((entry) => !removedEntries.includes(entry)).map(nameOf),
      freedBytes: freedBytes + this.#collect(index),
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
  async #commit(
    workspace: Workspace,
    { verb, stage, ...model }: TaggedModel & { verb: string; stage: (reuse: boolean) => Promise<StagedPackage> },
  ): Promise<PutResult> {
    const { repository, source, folder } = model;
    // Another process may remove a blob of the store before the index needs it. So the second attempt writes copies of
    // all blobs.
    for (const reuse of [true, false]) {
      const { manifest, blobs } = await stage(reuse);
      using _lock = this.#lock();
      if (!blobs.every((blob) => this.#blobs.isAtHand(blob))) continue;
      for (const blob of blobs) this.#blobs.place(blob);
      syncPath(this.#blobs.folder);
      const index = IndexFile.read(this.home);
      const created = new Date();
      const existing = index.entries().filter((entry) => entry.repository === repository);
      const absent = model.tagsIfAbsent.filter((tag) => !existing.some((entry) => entry.tag === tag));
      const generated = generatedTag(manifest.digest);
      for (const tag of [generated, ...model.tags, ...absent]) {
        index.set({ repository, tag, created, source, folder, ...manifest });
      }
      index.write();
      workspace.finish();
      return { digest: manifest.digest, tag: generated, reference: `${repository}:${generated}` };
    }
    throw new SconceError(
      "store_corrupt",
      `another process removed files of ${repository} during the ${verb}; ${verb} it again`,
    );
  }

  /**
   * Removes blobs that no manifest needs, except `exceptDigest`. The caller holds the store's lock.
   * @returns freed bytes
   */
  #collect(index: IndexFile, exceptDigest?: string): number {
    const needed = referencedDigests(this.#blobs, index.descriptors);
    // If a manifest cannot be read, its blobs are unknown, so nothing is removed.
    if (!needed) return 0;
    const garbage = this.#blobs.all().filter((digest) => !needed.has(digest) && digest !== exceptDigest);
    return garbage.reduce((bytes, digest) => bytes + this.#blobs.remove(digest), 0);
  }

  #lock() {
    return acquireLock(join(this.home, ".lock"), lockTimeoutMs);
  }

  /**
   * Opens a temporary folder in the store. Creates the store if needed, and deletes temporary folders of dead
   * processes.
   * @param download name of a folder whose content a later pull can resume; if another process uses it, a new folder is
   * opened
   */
  #openWorkspace(download?: string): Workspace {
    const [parent, downloads] = this.#workspaces;
    for (const folder of [this.#blobs.folder, parent, downloads]) mkdirSync(folder, { recursive: true });
    using _lock = this.#lock();
    this.#sweep();
    const reopened = download === undefined ? undefined : Workspace.reopen(downloads, download);
    const workspace = reopened ?? Workspace.open(parent);
    const layoutPath = join(this.home, "oci-layout");
    if (!existsSync(layoutPath)) replaceFile(layoutPath, ociLayout);
    return workspace;
  }

  /** Parent folders of the temporary folders: the first for builds, the second for downloads. */
  get #workspaces() {
    return [join(this.home, ".tmp"), join(this.home, ".partial")] as const;
  }

  /**
   * Removes temporary folders of dead builds, and downloads without a write for `maxAgeMs`. The caller holds the
   * store's lock.
   */
  #sweep(maxAgeMs = maxPartialAgeMs): void {
    const [parent, downloads] = this.#workspaces;
    if (existsSync(parent)) Workspace.sweep(parent);
    if (existsSync(downloads)) Workspace.sweep(downloads, maxAgeMs);
  }
}
