/** Reads and writes the store's index.json, which maps names (`repository:tag`) to manifests. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { isNoFile, SconceError } from "../../base/errors.ts";
import { replaceFile, syncPath } from "../../machine/files/durable.ts";
import { annotations, mediaTypes } from "./manifest.ts";
import { formatReference, parseReference, type TagReference } from "./reference.ts";

const descriptorSchema = z.looseObject({
  mediaType: z.string(),
  digest: z.string(),
  size: z.int().nonnegative(),
  artifactType: z.string().optional(),
  annotations: z.record(z.string(), z.string()).optional(),
});

/** Loose, so that fields that other tools wrote are kept. */
const indexSchema = z.looseObject({
  schemaVersion: z.literal(2),
  manifests: z.array(descriptorSchema),
});

export type IndexDescriptor = z.infer<typeof descriptorSchema>;
type IndexContent = z.infer<typeof indexSchema>;

/** An entry of index.json for a name `repository:tag`. */
export interface IndexEntry {
  readonly repository: string;
  readonly tag: string;
  /** Digest of the manifest. */
  readonly digest: string;
  /** Size of the manifest in bytes. */
  readonly size: number;
  readonly created: Date | undefined;
  /** Where the model was pulled from, as `host/repository`; undefined for a model that was built here. */
  readonly source?: string | undefined;
}

/** The content of index.json in memory. `write` replaces the whole file. */
export class IndexFile {
  readonly #home: string;
  readonly #content: IndexContent;

  private constructor(home: string, content: IndexContent) {
    this.#home = home;
    this.#content = content;
  }

  /**
   * Reads the index; empty if the store does not exist. Needs no lock, because `write` replaces the file atomically.
   * @throws SconceError `store_corrupt` when the file is not an OCI index
   */
  static read(home: string): IndexFile {
    const path = join(home, "index.json");
    let text: string;
    try {
      text = readFileSync(path, "utf8");
    } catch (error) {
      if (!isNoFile(error)) throw error;
      return new IndexFile(home, { schemaVersion: 2, mediaType: mediaTypes.index, manifests: [] });
    }
    try {
      return new IndexFile(home, indexSchema.parse(JSON.parse(text)));
    } catch (error) {
      throw new SconceError("store_corrupt", `${path} is not an OCI image index; restore it or remove the store`, {
        cause: error,
      });
    }
  }

  /** All manifests of the index, also unnamed manifests and manifests of other tools. */
  get descriptors(): readonly IndexDescriptor[] {
    return this.#content.manifests;
  }

  /** The manifests with a name `repository:tag`, in the order of the file. */
  entries(): IndexEntry[] {
    return this.#content.manifests.flatMap((descriptor) => {
      const reference = referenceOf(descriptor);
      if (!reference) return [];
      const created = new Date(descriptor.annotations?.[annotations.created] ?? Number.NaN);
      return {
        ...reference,
        digest: descriptor.digest,
        size: descriptor.size,
        created: Number.isNaN(created.getTime()) ? undefined : created,
        source: descriptor.annotations?.[annotations.source],
      };
    });
  }

  /** Points `repository:tag` at the manifest of a model. */
  set(entry: IndexEntry): void {
    this.point(`${entry.repository}:${entry.tag}`, {
      mediaType: mediaTypes.manifest,
      artifactType: mediaTypes.model,
      digest: entry.digest,
      size: entry.size,
      annotations: {
        ...(entry.created && { [annotations.created]: entry.created.toISOString() }),
        ...(entry.source !== undefined && { [annotations.source]: entry.source }),
      },
    });
  }

  /** Points a name at a manifest. An earlier entry of this name is removed. */
  point(name: string, descriptor: IndexDescriptor): void {
    this.delete(name);
    const named = { ...descriptor, annotations: { ...descriptor.annotations, [annotations.refName]: name } };
    this.#content.manifests.push(named);
  }

  /** Removes the entry of a name. @param name for a model `repository:tag` */
  delete(name: string): void {
    this.#content.manifests = this.#content.manifests.filter((descriptor) => {
      const reference = referenceOf(descriptor);
      // Other tools may write a name without a tag, which means the tag `latest`.
      return (
        name !== descriptor.annotations?.[annotations.refName] && (!reference || name !== formatReference(reference))
      );
    });
  }

  /** Replaces index.json durably. The caller holds the store's lock. */
  write(): void {
    replaceFile(join(this.#home, "index.json"), `${JSON.stringify(this.#content, null, 2)}\n`);
    syncPath(this.#home);
  }
}

function referenceOf(descriptor: IndexDescriptor): TagReference | undefined {
  const name = descriptor.annotations?.[annotations.refName];
  if (name === undefined) return undefined;
  try {
    const reference = parseReference(name);
    return "tag" in reference ? reference : undefined;
  } catch {
    // Other tools may write names that are no references to models.
    return undefined;
  }
}
