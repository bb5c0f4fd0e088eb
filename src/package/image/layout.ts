/** Reads and writes a folder of container images (OCI image layout 1.1). */
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { z } from "zod";
import { messageOf, SconceError } from "../../base/errors.ts";
import { replaceFile, syncPath } from "../../machine/files/durable.ts";
import { acquireLock } from "../../machine/files/lock.ts";
import { Blobs, type StagedBlob } from "../store/blobs.ts";
import { referencedDigests } from "../store/garbage.ts";
import { mediaTypes, ociLayout } from "../store/manifest.ts";
import { Workspace } from "../store/workspace.ts";
import { type Descriptor, type ImageIndex, imageIndexSchema, refNameKey } from "./documents.ts";

const lockTimeoutMs = 30_000;

const layoutSchema = z.looseObject({ imageLayoutVersion: z.literal("1.0.0") });

export interface NewImage {
  readonly name: string;
  readonly manifest: Descriptor;
  /** All blobs of the image, including the manifest. Each is in the layout already or in a temporary file. */
  readonly blobs: readonly StagedBlob[];
}

export class ImageLayout {
  /** Absolute path of the layout. */
  readonly folder: string;
  readonly blobs: Blobs;

  private constructor(folder: string) {
    this.folder = resolve(folder);
    this.blobs = new Blobs(this.folder);
  }

  /**
   * Opens the layout in a folder.
   * @throws SconceError `usage` when the folder contains no layout
   */
  static open(folder: string): ImageLayout {
    const layout = new ImageLayout(folder);
    const path = join(layout.folder, "oci-layout");
    if (existsSync(path) && layoutSchema.safeParse(readJson(path)).success) return layout;
    throw new SconceError("usage", `${folder} is not an OCI image layout: it has no oci-layout of version 1.0.0`);
  }

  /**
   * Opens the layout in a folder, or creates one in a new or empty folder.
   * @throws SconceError `usage` when the folder contains anything else, such as a model store
   */
  static openOrCreate(folder: string): ImageLayout {
    const found = statSync(folder, { throwIfNoEntry: false });
    // Ignores hidden files: another process may be creating the layout at this moment.
    const isFree = found === undefined || (found.isDirectory() && readdirSync(folder).every((name) => name[0] === "."));
    if (isFree) return ImageLayout.#create(folder);
    if (!existsSync(join(folder, "oci-layout"))) {
      const what = found.isDirectory() ? "has files and is not an OCI image layout" : "is not a folder";
      throw new SconceError(
        "usage",
        `${folder} ${what}; expected a new or empty folder, or a layout to add the image to`,
      );
    }
    const layout = ImageLayout.open(folder);
    if (layout.index().manifests.some(({ artifactType }) => artifactType === mediaTypes.model)) {
      throw new SconceError(
        "usage",
        `${folder} is a store of models, whose names an image would take; give another folder`,
      );
    }
    return layout;
  }

  static #create(folder: string): ImageLayout {
    const layout = new ImageLayout(folder);
    const temporary = join(layout.folder, ".tmp");
    try {
      mkdirSync(temporary, { recursive: true });
    } catch (error) {
      throw new SconceError("usage", `${folder} cannot be made (${messageOf(error)}); name another folder`, {
        cause: error,
      });
    }
    replaceFile(join(layout.folder, "oci-layout"), ociLayout, join(temporary, crypto.randomUUID()));
    return layout;
  }

  index(): ImageIndex {
    const path = join(this.folder, "index.json");
    if (!existsSync(path)) return { schemaVersion: 2, mediaType: mediaTypes.index, manifests: [] };
    const parsed = imageIndexSchema.safeParse(readJson(path));
    if (parsed.success) return parsed.data;
    const why = z.prettifyError(parsed.error).replaceAll("\n", " ");
    throw new SconceError("image_invalid", `the image layout ${this.folder} is damaged: ${path} can't be read: ${why}`);
  }

  /**
   * Creates a temporary folder inside the layout, so that finished blobs can be renamed into place. Deletes temporary
   * folders of killed processes.
   */
  openWorkspace(): Workspace {
    const parent = join(this.folder, ".tmp");
    mkdirSync(this.blobs.folder, { recursive: true });
    mkdirSync(parent, { recursive: true });
    using _lock = this.#lock();
    Workspace.sweep(parent);
    return Workspace.open(parent);
  }

  /**
   * Moves the blobs into the layout, then updates index.json, so that readers find every blob. Then removes blobs that
   * only the replaced image of this name used.
   * @throws SconceError `image_invalid` when another process has removed a blob
   */
  commit(image: NewImage, workspace: Workspace): void {
    using _lock = this.#lock();
    if (!image.blobs.every((blob) => this.blobs.isAtHand(blob))) {
      const message = `a blob of ${image.name} was removed from ${this.folder} by another process; write the image again`;
      throw new SconceError("image_invalid", message);
    }
    for (const blob of image.blobs) this.blobs.place(blob);
    syncPath(this.blobs.folder);
    const index = this.index();
    const isReplaced = ({ annotations }: Descriptor) => annotations?.[refNameKey] === image.name;
    const others = index.manifests.filter((descriptor) => !isReplaced(descriptor));
    const replaced = referencedDigests(this.blobs, index.manifests.filter(isReplaced));
    const named = { ...image.manifest, annotations: { ...image.manifest.annotations, [refNameKey]: image.name } };
    const content = { ...index, manifests: [...others, named] };
    const temp = join(workspace.folder, "index.json");
    replaceFile(join(this.folder, "index.json"), `${JSON.stringify(content, null, 2)}\n`, temp);
    syncPath(this.folder);
    const needed = referencedDigests(this.blobs, content.manifests);
    // An unreadable manifest may need any blob, so no blob is removed.
    if (replaced === undefined || needed === undefined) return;
    for (const digest of replaced) if (!needed.has(digest)) this.blobs.remove(digest);
  }

  #lock() {
    return acquireLock(join(this.folder, ".lock"), lockTimeoutMs, `the image layout ${this.folder}`);
  }
}

function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return undefined;
  }
}
