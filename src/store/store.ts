/** The model store: packaged models on disk as an OCI image layout, which registry tools can read and write. */
import { existsSync, mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { SconceError } from "../errors.ts";
import { Blobs, digestOf } from "./blobs.ts";
import { diskFault, isFull, requireRoom } from "./disk-fault.ts";
import { replaceFile, syncPath } from "./durable.ts";
import { referencedDigests } from "./garbage.ts";
import { type IndexEntry, IndexFile } from "./index-file.ts";
import { storeLocation } from "./location.ts";
import { acquireLock } from "./lock.ts";
import { findEntry } from "./lookup.ts";
import { annotations } from "./manifest.ts";
import { PackagedModel } from "./packaged-model.ts";
import { type PutOptions, type StagedPackage, stagePackage } from "./packaging.ts";
import { lackingLayers, readConfig, readManifest, withoutWeights } from "./read-model.ts";
import { missingBytes, type ReceiveOptions, stageReceived } from "./receiving.ts";
import { checkRepository, checkTag, generatedTag, latestTag, parseReference } from "./reference.ts";
import { type ModelSummary, sizeOf, summarize } from "./summary.ts";
import { type Stamps, type VerifyOptions, verifyLayers } from "./verification.ts";
import { Workspace } from "./workspace.ts";

const lockTimeoutMs = 30_000;

/** How long what an interrupted download left is kept. */
const maxPartialAgeMs = 7 * 24 * 3600 * 1000;

export type { CopyProgress, LayerSource, PutOptions } from "./packaging.ts";
export type { ModelSummary } from "./summary.ts";

export interface PutResult {
  /** Of the manifest. */
  readonly digest: string;
  /** The generated tag. */
  readonly tag: string;
  /** `repository:tag` with the generated tag. */
  readonly reference: string;
}

export interface RemoveResult {
  /** The references that are gone. */
  readonly removed: readonly string[];
  /** The references in the same repository that still stand for the model. */
  readonly left: readonly string[];
  /** How many bytes of the disk became free; 0 while another tag keeps the model. */
  readonly freedBytes: number;
}

export class ModelStore {
  /** Absolute path of the store's folder; it need not exist before something is put into it. */
  readonly home: string;
  readonly #blobs: Blobs;

  constructor(home: string = storeLocation()) {
    this.home = resolve(home);
    this.#blobs = new Blobs(this.home);
  }

  /**
   * Packages a model: writes its layers, its config and its manifest, and lets the generated tag, `latest` and the given tags
   * stand for it. Safe to be killed at any moment and to run beside others.
   *
   * @throws SconceError `usage` for a misspelled name or tag, `model_invalid` for a bad config or a file that can't be read;
   * `store_unwritable`; the signal's reason when it is aborted.
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
    const { repository } = options;
    using workspace = this.#openWorkspace();
    // What is in the store already may be removed by another process until the index refers to it. Then this build makes copies
    // of its own, which nobody else touches, so the second time can't fail.
    for (const reuse of [true, false]) {
      const staged = await stagePackage(this.#blobs, options, { folder: workspace.folder, reuse });
      const { digest } = staged.manifest;
      const tag = generatedTag(digest);
      const [moved, spareTags] = options.isVariant ? [[], [latestTag]] : [[latestTag], []];
      const tags = [tag, ...moved, ...(options.tags ?? [])];
      if (this.#commit({ repository, tags, spareTags, staged }, workspace)) {
        return { digest, tag, reference: `${repository}:${tag}` };
      }
    }
    throw new SconceError("store_corrupt", `files of ${repository} went away while it was built; build it again`);
  }

  /**
   * Takes a model that was packaged elsewhere, byte for byte. The generated tag and the given tags stand for it then, and `latest`
   * only if the repository has none: what a repository's name alone stands for is not changed by fetching, say, an old model. What
   * was received before it failed, was aborted or was killed is kept for a week and not asked for again.
   *
   * @throws SconceError `usage`, `model_invalid`, `registry_corrupt`, what `fill` throws, or the signal's reason
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
    const { repository } = options;
    using workspace = this.#openWorkspace(digest.slice("sha256:".length));
    this.#makeRoom(missingBytes(this.#blobs, options, workspace.folder));
    for (const reuse of [true, false]) {
      const staged = await stageReceived(this.#blobs, options, { folder: workspace.folder, reuse });
      const tag = generatedTag(digest);
      const tags = { tags: [tag, ...options.tags], spareTags: [latestTag], copies: [options.source] };
      if (this.#commit({ repository, ...tags, staged }, workspace)) {
        return { digest, tag, reference: `${repository}:${tag}` };
      }
    }
    throw new SconceError("store_corrupt", `files of ${repository} went away while it was received; pull it again`);
  }

  /**
   * The manifest as it is in the store, byte for byte.
   *
   * @throws SconceError `store_corrupt`
   */
  manifestBytes({ repository, digest }: PackagedModel): Promise<Uint8Array> {
    return this.#blobs.read(this.#find(`${repository}@${digest}`));
  }

  /** Remembers that a registry has the model, too, in `host/repository`. */
  noteCopy({ repository, digest }: PackagedModel, copy: string): void {
    using _lock = this.#lock();
    const index = IndexFile.read(this.home);
    for (const entry of index.entries()) {
      if (entry.repository !== repository || entry.digest !== digest) continue;
      index.set({ ...entry, copies: [copy, ...(entry.copies ?? []).filter((other) => other !== copy)] });
    }
    index.write();
  }

  /** Where the content of a blob lies. */
  blobPath(digest: string): string {
    return this.#blobs.path(digest);
  }

  /**
   * Finds a model; without a reference, the most recent build of all. Checks that every blob is there with its size, and the
   * digests of manifest and config; `verify` checks those of the layers.
   *
   * @param options.weights whether those of a model that came from a registry must be there: a front does without
   * @throws SconceError `usage`, `model_not_found` (saying what there is), `model_invalid` (not a sconce model, or a newer one),
   * `store_corrupt`
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
    const lacking = lackingLayers(this.#blobs, entry, layers);
    if (weights && lacking.length > 0) throw withoutWeights(entry);
    await Promise.all(layers.filter((layer) => !lacking.includes(layer)).map((layer) => this.#blobs.check(layer)));
    return new PackagedModel({ ...entry, size: sizeOf(entry, manifest), manifest, config, layers, lacking });
  }

  /**
   * Checks the digest of every layer of a model. Only what has changed since it was checked last is read.
   *
   * @returns the stamps of all layers
   * @throws SconceError `store_corrupt`, or the signal's reason when it is aborted
   */
  verify(model: PackagedModel, options: VerifyOptions = {}): Promise<Stamps> {
    return verifyLayers(model, { ...options, blobs: this.#blobs, home: this.home });
  }

  /** Every model, the most recent build first. What other tools put there that isn't a sconce model is left out. */
  async list(): Promise<ModelSummary[]> {
    const groups = Map.groupBy(IndexFile.read(this.home).entries(), (entry) => `${entry.repository}@${entry.digest}`);
    const summaries = await Promise.all([...groups.values()].map((entries) => summarize(this.#blobs, entries)));
    return summaries
      .filter((summary) => summary !== undefined)
      .sort((a, b) => (b.created?.getTime() ?? 0) - (a.created?.getTime() ?? 0));
  }

  /**
   * Lets one more reference stand for a model; a tag that stood for another one moves.
   *
   * @returns the new reference, `repository:tag`
   * @throws SconceError `usage`, `model_not_found`, `store_unwritable`
   */
  tag(source: string, target: string): string {
    const name = parseReference(target);
    if (!("tag" in name)) throw new SconceError("usage", `${JSON.stringify(target)} is a digest; expected name[:tag]`);
    // An empty store is an error, and no reason to create one.
    this.#find(source);
    try {
      using _lock = this.#lock();
      const index = IndexFile.read(this.home);
      index.set({ ...this.#find(source, index), ...name });
      index.write();
    } catch (error) {
      throw diskFault(error, this.home) ?? error;
    }
    return `${name.repository}:${name.tag}`;
  }

  /**
   * Removes a tag, or with a digest every tag of that model in the repository, and the blobs that nothing refers to any more.
   * A process that has the model open keeps it. Works on a full disk, too.
   *
   * @param options.allTags removes every tag of the model, whichever was named
   * @throws SconceError `usage`, `model_not_found`, `store_unwritable`
   */
  remove(reference: string, { allTags = false }: { allTags?: boolean } = {}): RemoveResult {
    // An empty store is an error, and no reason to create one.
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
    // A tag that nobody gave keeps nothing.
    const gone = ofModel.filter((entry) => byDigest || isLastName || entry.tag === found.tag);
    for (const entry of gone) index.delete(entry);
    let freedBytes = 0;
    try {
      index.write();
    } catch (error) {
      if (!isFull(error)) throw error;
      // There is no room for the smaller index beside the larger one. The manifest stays: what is killed now can be removed again.
      freedBytes = this.#collect(index, found.digest);
      this.#sweep(0);
      index.write();
    }
    const nameOf = (entry: IndexEntry) => `${entry.repository}:${entry.tag}`;
    return {
      removed: gone.map(nameOf),
      left: ofModel.filter((entry) => !gone.includes(entry)).map(nameOf),
      freedBytes: freedBytes + this.#collect(index),
    };
  }

  #find(reference: string | undefined, index = IndexFile.read(this.home)): IndexEntry {
    return findEntry(index.entries(), reference === undefined ? undefined : parseReference(reference), this.home);
  }

  /**
   * Moves the blobs into the store and makes the tags stand for the manifest, unless a blob is gone; `spareTags` only where they
   * stand for nothing.
   */
  #commit(
    model: {
      repository: string;
      tags: readonly string[];
      spareTags?: readonly string[];
      copies?: readonly string[];
      staged: StagedPackage;
    },
    workspace: Workspace,
  ): boolean {
    const { manifest, blobs } = model.staged;
    using _lock = this.#lock();
    if (!blobs.every((blob) => this.#blobs.isAtHand(blob))) return false;
    for (const blob of blobs) this.#blobs.place(blob);
    syncPath(this.#blobs.folder);
    const index = IndexFile.read(this.home);
    const created = new Date();
    const taken = index.entries().filter(({ repository }) => repository === model.repository);
    const spare = model.spareTags?.filter((tag) => !taken.some((entry) => entry.tag === tag)) ?? [];
    const { repository, copies = [] } = model;
    for (const tag of [...model.tags, ...spare]) index.set({ repository, tag, created, copies, ...manifest });
    index.write();
    workspace.finish();
    return true;
  }

  /** Removes blobs without a manifest that needs them, but for `kept`; the caller holds the lock. Returns the bytes that became free. */
  #collect(index: IndexFile, kept?: string): number {
    const needed = referencedDigests(this.#blobs, index.descriptors);
    // A manifest that can't be read may need any of them.
    if (!needed) return 0;
    const garbage = this.#blobs.all().filter((digest) => !needed.has(digest) && digest !== kept);
    return garbage.reduce((bytes, digest) => bytes + this.#blobs.remove(digest), 0);
  }

  #lock() {
    return acquireLock(join(this.home, ".lock"), lockTimeoutMs);
  }

  /**
   * Prepares the store's folder and takes a workspace in it, sweeping those of dead builds and of downloads that nobody goes on with.
   *
   * @param download names one to go on with; while another process is at it, this one begins anew
   */
  #openWorkspace(download?: string): Workspace {
    const [parent, downloads] = this.#workspaces;
    for (const folder of [this.#blobs.folder, parent, downloads]) mkdirSync(folder, { recursive: true });
    using _lock = this.#lock();
    this.#sweep();
    const reopened = download === undefined ? undefined : Workspace.reopen(downloads, download);
    const workspace = reopened ?? Workspace.open(parent);
    const layoutPath = join(this.home, "oci-layout");
    if (!existsSync(layoutPath)) replaceFile(layoutPath, '{"imageLayoutVersion":"1.0.0"}\n');
    return workspace;
  }

  /**
   * Gives up downloads that nobody goes on with where the disk has too little room beside them, and enough without them.
   *
   * @throws SconceError `store_unwritable`
   */
  #makeRoom(bytes: number): void {
    try {
      requireRoom(this.home, bytes);
    } catch {
      using _lock = this.#lock();
      const [, downloads] = this.#workspaces;
      requireRoom(this.home, bytes, Workspace.unusedBytes(downloads));
      this.#sweep(0);
      requireRoom(this.home, bytes);
    }
  }

  /** Of builds, and of downloads. */
  get #workspaces() {
    return [join(this.home, ".tmp"), join(this.home, ".partial")] as const;
  }

  /** Removes what dead builds left, and downloads that nobody went on with for so long; the caller holds the lock. */
  #sweep(maxAgeMs = maxPartialAgeMs): void {
    const [parent, downloads] = this.#workspaces;
    if (existsSync(parent)) Workspace.sweep(parent);
    if (existsSync(downloads)) Workspace.sweep(downloads, maxAgeMs);
  }
}
