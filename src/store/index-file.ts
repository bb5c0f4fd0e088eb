/** The store's index.json: which references there are and which manifests they stand for. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { isNoFile, SconceError } from "../errors.ts";
import { replaceFile, syncPath } from "./durable.ts";
import { annotations, mediaTypes } from "./manifest.ts";
import { parseReference, type TagReference } from "./reference.ts";

const descriptorSchema = z.looseObject({
  mediaType: z.string(),
  digest: z.string(),
  size: z.int().nonnegative(),
  annotations: z.record(z.string(), z.string()).optional(),
});

/** Loose, since other tools write this file too: what sconce doesn't know is kept as it is. */
const indexSchema = z.looseObject({
  schemaVersion: z.literal(2),
  manifests: z.array(descriptorSchema),
});

const maxCopies = 4;

export type IndexDescriptor = z.infer<typeof descriptorSchema>;
type IndexContent = z.infer<typeof indexSchema>;

/** One line of the index that has a name. */
export interface IndexEntry {
  readonly repository: string;
  readonly tag: string;
  /** Of the manifest. */
  readonly digest: string;
  /** Of the manifest, in bytes. */
  readonly size: number;
  readonly created: Date | undefined;
  /** `host/repository` of the registries that it came from or went to, the last first. */
  readonly copies?: readonly string[];
}

/** index.json as it was read; changes are made on it and written back whole. */
export class IndexFile {
  readonly #home: string;
  readonly #content: IndexContent;

  private constructor(home: string, content: IndexContent) {
    this.#home = home;
    this.#content = content;
  }

  /**
   * Reads the index; a store that isn't there yet is empty. Needs no lock: the file is only ever replaced whole.
   *
   * @throws SconceError `store_corrupt` when it isn't an OCI index.
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

  /** Every manifest, named or not. */
  get descriptors(): readonly IndexDescriptor[] {
    return this.#content.manifests;
  }

  /** Every manifest with a name that is a reference, in the order of the file. */
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
        copies: descriptor.annotations?.[annotations.copies]?.split(" ") ?? [],
      };
    });
  }

  /** Lets the name stand for the manifest from now on, and for nothing else. */
  set(entry: IndexEntry): void {
    this.delete(entry);
    this.#content.manifests.push({
      mediaType: mediaTypes.manifest,
      artifactType: mediaTypes.model,
      digest: entry.digest,
      size: entry.size,
      annotations: {
        ...(entry.created && { [annotations.created]: entry.created.toISOString() }),
        ...(entry.copies?.length && { [annotations.copies]: entry.copies.slice(0, maxCopies).join(" ") }),
        [annotations.refName]: `${entry.repository}:${entry.tag}`,
      },
    });
  }

  delete(name: TagReference): void {
    this.#content.manifests = this.#content.manifests.filter((descriptor) => {
      const reference = referenceOf(descriptor);
      return reference?.repository !== name.repository || reference.tag !== name.tag;
    });
  }

  /** Replaces the file; the caller holds the store's lock. */
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
    // Another tool's name that could never be typed as a reference.
    return undefined;
  }
}
