/** An OCI image layout on disk, in which models or container images have names. Registry tools can read and write it. */
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { z } from "zod";
import { replaceFile, syncPath } from "../../machine/files/durable.ts";
import { acquireLock, type FileLock } from "../../machine/files/lock.ts";
import { removeAbandoned, type TemporaryFolder, temporaryFolder } from "../../machine/files/temporary-folder.ts";
import { Blobs, type StagedBlob } from "./blobs.ts";
import { IndexFile } from "./index-file.ts";
import { ociLayout } from "./manifest.ts";

const lockTimeoutMs = 30_000;

const workspacePrefix = "build-";

export interface LayoutChange {
  /** Blobs for the layout. Each is in the layout already or in a temporary file. */
  readonly blobs: readonly StagedBlob[];
  /** Changes the names. */
  change(index: IndexFile): void;
  /** Whether to remove blobs that no name needs any more. */
  readonly collects?: boolean;
}

export class Layout {
  /** Absolute path of the folder. `openWorkspace` creates it. */
  readonly home: string;
  readonly blobs: Blobs;
  readonly #what: string | undefined;

  /** @param what the layout in messages. Default: the model store */
  constructor(home: string, what?: string) {
    this.home = resolve(home);
    this.blobs = new Blobs(this.home);
    this.#what = what;
  }

  lock(): FileLock {
    return acquireLock(join(this.home, ".lock"), lockTimeoutMs, this.#what);
  }

  /**
   * Opens a temporary folder in the layout, so that finished blobs can be renamed into place. Creates the layout if
   * needed, and deletes temporary folders of dead processes.
   */
  openWorkspace(): TemporaryFolder {
    mkdirSync(this.home, { recursive: true });
    using _lock = this.lock();
    const layoutPath = join(this.home, "oci-layout");
    if (!existsSync(layoutPath)) replaceFile(layoutPath, ociLayout, join(this.home, ".oci-layout"));
    for (const folder of [this.blobs.folder, this.#workspaces]) mkdirSync(folder, { recursive: true });
    return temporaryFolder(this.#workspaces, workspacePrefix);
  }

  /**
   * Moves blobs into the layout, then writes the changed index, so that readers find every blob.
   * @returns false if another process has removed a blob, so that nothing is changed
   */
  commit({ blobs, change, collects = false }: LayoutChange): boolean {
    using _lock = this.lock();
    if (!blobs.every((blob) => this.blobs.isAtHand(blob))) return false;
    for (const blob of blobs) this.blobs.place(blob);
    syncPath(this.blobs.folder);
    const index = IndexFile.read(this.home);
    change(index);
    index.write();
    if (collects) this.collect(index);
    return true;
  }

  /**
   * Removes blobs that no manifest needs, except `exceptDigest`. The caller holds the lock.
   * @returns freed bytes
   */
  collect(index: IndexFile, exceptDigest?: string): number {
    const needed = this.#neededBy(index);
    // If a manifest cannot be read, its blobs are unknown, so nothing is removed.
    if (!needed) return 0;
    const garbage = this.blobs.all().filter((digest) => !needed.has(digest) && digest !== exceptDigest);
    return garbage.reduce((bytes, digest) => bytes + this.blobs.remove(digest), 0);
  }

  /** Removes temporary folders of dead processes. The caller holds the lock. */
  sweep(): void {
    if (existsSync(this.#workspaces)) removeAbandoned(this.#workspaces, workspacePrefix);
  }

  get #workspaces(): string {
    return join(this.home, ".tmp");
  }

  /**
   * Digests of the blobs that are reachable from the index through indexes and manifests.
   * @returns undefined if an index or manifest cannot be read
   */
  #neededBy({ descriptors }: IndexFile): Set<string> | undefined {
    const found = new Set<string>();
    const open: z.infer<typeof childSchema>[] = [...descriptors];
    for (let next = open.pop(); next; next = open.pop()) {
      if (found.has(next.digest)) continue;
      found.add(next.digest);
      const { mediaType = "" } = next;
      const isIndex = /index|manifest\.list/.test(mediaType);
      if (!isIndex && !/manifest/.test(mediaType)) continue;
      try {
        const content: unknown = JSON.parse(readFileSync(this.blobs.path(next.digest), "utf8"));
        if (isIndex) open.push(...(indexSchema.parse(content).manifests ?? []));
        else {
          const { config, layers = [] } = manifestSchema.parse(content);
          for (const { digest } of config ? [config, ...layers] : layers) found.add(digest);
        }
      } catch {
        return undefined;
      }
    }
    return found;
  }
}

const childSchema = z.looseObject({ mediaType: z.string().optional(), digest: z.string() });
/** Match OCI and Docker documents of any kind, because other tools may write to the same folder. */
const indexSchema = z.looseObject({ manifests: z.array(childSchema).optional() });
const manifestSchema = z.looseObject({ config: childSchema.optional(), layers: z.array(childSchema).optional() });
