/** The model store: packaged models on disk as an OCI image layout, which registry tools can read and write. */
import { existsSync, mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { SconceError } from "../../base/errors.ts";
import { diskFault, isFull, requireSpace } from "../../machine/files/disk-fault.ts";
import { replaceFile, syncPath } from "../../machine/files/durable.ts";
import { modelsLocation } from "../../machine/files/location.ts";
import { acquireLock } from "../../machine/files/lock.ts";
import { Blobs, digestOf } from "./blobs.ts";
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

/** Milliseconds after which an abandoned partial download is deleted. */
const maxPartialAgeMs = 7 * 24 * 3600 * 1000;

export type { CopyProgress, LayerSource, PutOptions } from "./packaging.ts";
export type { ModelSummary } from "./summary.ts";

export interface PutResult {
  /** Digest of the model's manifest. */
  readonly digest: string;
  /** The generated tag, which depends only on the content. */
  readonly tag: string;
  /** The reference `repository:tag` with the generated tag. */
  readonly reference: string;
}

export interface RemoveResult {
  /** References that were removed. */
  readonly removed: readonly string[];
  /** References in the same repository that still point to the model. */
  readonly remaining: readonly string[];
  /** Freed disk space in bytes; 0 while another tag keeps the model. */
  readonly freedBytes: number;
}

/** A model that the index will contain. */
interface TaggedModel {
  readonly repository: string;
  /** Tags that move to the model. */
  readonly tags: readonly string[];
  /** Tags that are set only if the repository lacks them. */
  readonly spareTags: readonly string[];
  readonly copies?: readonly string[];
  readonly folder?: string | undefined;
}

export class ModelStore {
  /** Absolute path of the store's folder. The first `put` creates it. */
  readonly home: string;
  readonly #blobs: Blobs;

  constructor(home: string = modelsLocation()) {
    this.home = resolve(home);
    this.#blobs = new Blobs(this.home);
  }

  /**
   * Packages a model: writes layers, config and manifest, and points the generated tag, `latest` and the given tags at
   * the manifest. Safe against kills at any moment and against concurrent runs.
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
    const [moved, spareTags] = options.isVariant ? [[], [latestTag]] : [[latestTag], []];
    return await this.#commit(workspace, {
      verb: "build",
      stage: (reuse) => stagePackage(this.#blobs, options, { folder: workspace.folder, reuse }),
      repository: options.repository,
      tags: [...moved, ...(options.tags ?? [])],
      spareTags,
      folder: options.folder === undefined ? undefined : folderDigest(options.folder),
    });
  }

  /**
   * Stores a model from a registry, byte for byte. The generated tag and the given tags move to it. `latest` is set
   * only if the repository lacks it, so pulling an old model does not change the default. A failed or killed download
   * is kept for a week and resumed.
   * @throws SconceError `usage`, `model_invalid`, `registry_corrupt`, errors of `fill`, or the signal's reason
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
    this.#freeSpace(missingBytes(this.#blobs, options, workspace.folder));
    return await this.#commit(workspace, {
      verb: "pull",
      stage: (reuse) => stageReceived(this.#blobs, options, { folder: workspace.folder, reuse }),
      repository: options.repository,
      tags: options.tags,
      spareTags: [latestTag],
      copies: [options.source],
    });
  }

  /**
   * The exact bytes of a model's manifest.
   * @throws SconceError `store_corrupt`
   */
  manifestBytes({ repository, digest }: PackagedModel): Promise<Uint8Array> {
    return this.#blobs.read(this.#find(`${repository}@${digest}`));
  }

  /** Records that a registry has a copy of the model. @param copy `host/repository` in the registry */
  noteCopy({ repository, digest }: PackagedModel, copy: string): void {
    using _lock = this.#lock();
    const index = IndexFile.read(this.home);
    for (const entry of index.entries()) {
      if (entry.repository !== repository || entry.digest !== digest) continue;
      index.set({ ...entry, copies: [copy, ...(entry.copies ?? []).filter((other) => other !== copy)] });
    }
    index.write();
  }

  /** Path of the file of a blob. */
  blobPath(digest: string): string {
    return this.#blobs.path(digest);
  }

  /**
   * Finds a model. Without a reference, finds the most recent build. Checks that every blob exists with its size, and
   * the digests of manifest and config. `verify` checks the digests of the layers.
   * @param options.weights false accepts a model that was pulled without weights, for `--role front`
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
    return new PackagedModel({ ...entry, size: sizeOf(entry, manifest), manifest, config, layers, missingLayers });
  }

  /**
   * The default model of a command: the newest build of the current folder, or the only model of the store.
   * @param folder the folder in which the command runs
   * @param fix the fix in the message about several models
   * @throws SconceError `usage` if the store has several models, `model_not_found` if it has none
   */
  unnamed(folder: string, fix?: string): string {
    const entries = IndexFile.read(this.home).entries();
    return formatReference(findUnnamed(entries, { folder: folderDigest(folder), home: this.home, fix }));
  }

  /**
   * Checks the digest of every layer of a model. Layers that are unchanged since their last check are not read again.
   * @returns metadata stamps of all layers, for the next check
   * @throws SconceError `store_corrupt`, or the signal's reason when it is aborted
   */
  verify(model: PackagedModel, options: VerifyOptions = {}): Promise<Stamps> {
    return verifyLayers(model, { ...options, blobs: this.#blobs, home: this.home });
  }

  /** All models, the most recent build first. Entries of other tools that are not sconce models are skipped. */
  async list(): Promise<ModelSummary[]> {
    const groups = Map.groupBy(IndexFile.read(this.home).entries(), (entry) => `${entry.repository}@${entry.digest}`);
    const summaries = await Promise.all([...groups.values()].map((entries) => summarize(this.#blobs, entries)));
    return summaries
      .filter((summary) => summary !== undefined)
      .sort((a, b) => (b.created?.getTime() ?? 0) - (a.created?.getTime() ?? 0));
  }

  /**
   * Adds a reference to a model. An existing tag moves.
   * @returns the new reference, `repository:tag`
   * @throws SconceError `usage`, `model_not_found`, `store_unwritable`
   */
  tag(source: string, target: string): string {
    const name = parseReference(target);
    if (!("tag" in name)) throw new SconceError("usage", `${JSON.stringify(target)} is a digest; expected name[:tag]`);
    // Fails for an unknown model before the lock would create a missing store.
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
   * Removes a tag, or with a digest all tags of this model in the repository. Then removes blobs without remaining
   * references. A process that has the model open can still read it. Works on a full disk.
   * @param options.allTags removes all tags of the model, even if the reference names one tag
   * @throws SconceError `usage`, `model_not_found`, `store_unwritable`
   */
  remove(reference: string, { allTags = false }: { allTags?: boolean } = {}): RemoveResult {
    // Fails for an unknown model before the lock would create a missing store.
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
    // The generated tag alone does not keep a model. When the last other tag is removed, the generated tag is removed
    // too.
    const removedEntries = ofModel.filter((entry) => byDigest || isLastName || entry.tag === found.tag);
    for (const entry of removedEntries) index.delete(entry);
    let freedBytes = 0;
    try {
      index.write();
    } catch (error) {
      if (!isFull(error)) throw error;
      // A full disk has no space for the new index beside the old one, so blobs are deleted first. The manifest stays:
      // after a kill at this point, `remove` can run again.
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
   * Moves a model's blobs into the store and points the tags at the manifest.
   * @param stage writes the blobs to the workspace; `reuse` is whether blobs in the store need no copy
   */
  async #commit(
    workspace: Workspace,
    { verb, stage, ...model }: TaggedModel & { verb: string; stage: (reuse: boolean) => Promise<StagedPackage> },
  ): Promise<PutResult> {
    const { repository, copies = [], folder } = model;
    // Before the index refers to a reused blob, another process may remove it. The second attempt copies every blob, so
    // it cannot fail in this way.
    for (const reuse of [true, false]) {
      const { manifest, blobs } = await stage(reuse);
      using _lock = this.#lock();
      if (!blobs.every((blob) => this.#blobs.isAtHand(blob))) continue;
      for (const blob of blobs) this.#blobs.place(blob);
      syncPath(this.#blobs.folder);
      const index = IndexFile.read(this.home);
      const created = new Date();
      const existing = index.entries().filter((entry) => entry.repository === repository);
      const spare = model.spareTags.filter((tag) => !existing.some((entry) => entry.tag === tag));
      const generated = generatedTag(manifest.digest);
      for (const tag of [generated, ...model.tags, ...spare]) {
        index.set({ repository, tag, created, copies, folder, ...manifest });
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
   * Removes unreferenced blobs except `exceptDigest`, and returns the freed bytes. The caller holds the store's lock.
   */
  #collect(index: IndexFile, exceptDigest?: string): number {
    const needed = referencedDigests(this.#blobs, index.descriptors);
    // An unreadable manifest may refer to any blob, so no blob is removed.
    if (!needed) return 0;
    const garbage = this.#blobs.all().filter((digest) => !needed.has(digest) && digest !== exceptDigest);
    return garbage.reduce((bytes, digest) => bytes + this.#blobs.remove(digest), 0);
  }

  #lock() {
    return acquireLock(join(this.home, ".lock"), lockTimeoutMs);
  }

  /**
   * Opens a temporary folder in the store. Creates the store if needed, and deletes abandoned temporary folders.
   * @param download name of a folder that a later pull can resume; if another process uses it, a new folder is opened
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

  /**
   * Deletes abandoned downloads if the disk has too little space, and deleting them gives enough.
   * @throws SconceError `store_unwritable`
   */
  #freeSpace(bytes: number): void {
    try {
      requireSpace(this.home, bytes);
    } catch {
      using _lock = this.#lock();
      const [, downloads] = this.#workspaces;
      requireSpace(this.home, bytes, Workspace.unusedBytes(downloads));
      this.#sweep(0);
      requireSpace(this.home, bytes);
    }
  }

  /** The parent folders of temporary folders: for builds and for downloads. */
  get #workspaces() {
    return [join(this.home, ".tmp"), join(this.home, ".partial")] as const;
  }

  /**
   * Removes temporary folders of dead builds, and downloads unchanged for `maxAgeMs`. The caller holds the store's
   * lock.
   */
  #sweep(maxAgeMs = maxPartialAgeMs): void {
    const [parent, downloads] = this.#workspaces;
    if (existsSync(parent)) Workspace.sweep(parent);
    if (existsSync(downloads)) Workspace.sweep(downloads, maxAgeMs);
  }
}
