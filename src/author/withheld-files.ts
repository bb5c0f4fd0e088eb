/**
 * Placeholders for the base64 text of large files and arrays in an output's JSON value. Serialization replaces them by
 * base64 in small chunks.
 */
import type { ModelFile } from "./file.ts";

/** Fewest bytes that a placeholder replaces. Encoding fewer takes a fraction of a millisecond. */
const MIN_BYTES = 256 * 1024;
/** Bytes encoded at a time: a multiple of 3, since base64 encodes 3 bytes as 4 characters. */
const PART_BYTES = 192 * 1024;

/** The bytes of each placeholder, while `withholding` runs. */
let withheld: Map<string, Uint8Array> | undefined;

/** Runs `make`. Large files and arrays that `make` encodes become placeholders; `files` has their bytes. */
export function withholding<T>(make: () => T): { readonly made: T; readonly files: ReadonlyMap<string, Uint8Array> } {
  const files = new Map<string, Uint8Array>();
  withheld = files;
  try {
    return { made: make(), files };
  } finally {
    withheld = undefined;
  }
}

/** The data URI of a file. Inside `withholding`, a large file has a placeholder in place of its base64. */
export function wireUri(file: ModelFile): string {
  return file.dataUri(base64Of);
}

/** The bytes as base64. Inside `withholding`, many bytes become a placeholder. */
export function base64Of(bytes: Uint8Array): string {
  if (withheld === undefined || bytes.length < MIN_BYTES) return bytes.toBase64();
  // The output check accepts only base64 characters, and a hyphen is none.
  const mark = crypto.randomUUID().replaceAll("-", "");
  withheld.set(mark, bytes);
  return mark;
}

/** Replaces the placeholders in texts by base64, in chunks, as the caller reads. */
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
