/** Large files of an output leave marks in its wire value: text is made of their bytes a part at a time, where the value becomes text. */
import type { ModelFile } from "./file.ts";

/** Smaller ones are made text at once: a fraction of a millisecond. */
const MIN_BYTES = 256 * 1024;
/** Made text at a time; 3 divides it, as base64 has 4 characters for 3 bytes. */
const PART_BYTES = 192 * 1024;

/** By their marks, while a value is made that may have such. */
let withheld: Map<string, Uint8Array> | undefined;

/** Makes a wire value, with marks for the bytes of large files. */
export function withholding<T>(make: () => T): { readonly made: T; readonly files: ReadonlyMap<string, Uint8Array> } {
  const files = new Map<string, Uint8Array>();
  withheld = files;
  try {
    return { made: make(), files };
  } finally {
    withheld = undefined;
  }
}

/** The data URI of a file, or of its mark. */
export function wireUri(file: ModelFile): string {
  return file.dataUri((bytes) => {
    if (withheld === undefined || bytes.length < MIN_BYTES) return bytes.toBase64();
    // Without hyphens it is base64, too, and the check of an output takes it.
    const mark = crypto.randomUUID().replaceAll("-", "");
    withheld.set(mark, bytes);
    return mark;
  });
}

/** The same texts with the base64 of files in the places of their marks, each part made when it is asked for. */
export function* withFiles(texts: Iterable<string>, files: ReadonlyMap<string, Uint8Array>): Generator<string> {
  if (files.size === 0) return yield* texts;
  const marks = new RegExp(`(${[...files.keys()].join("|")})`);
  for (const text of texts) {
    for (const part of text.split(marks)) {
      const bytes = files.get(part);
      if (bytes === undefined) yield part;
      else for (let at = 0; at < bytes.length; at += PART_BYTES) yield bytes.subarray(at, at + PART_BYTES).toBase64();
    }
  }
}
