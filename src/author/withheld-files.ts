/**
 * Large files and arrays of an output become placeholders in the wire value. Serialization writes the base64 text of
 * each in parts.
 */
import type { ModelFile } from "./file.ts";

/** Fewer bytes are encoded at once, in a fraction of a millisecond. */
const MIN_BYTES = 256 * 1024;
/** Bytes encoded at a time; a multiple of 3, since base64 encodes 3 bytes as 4 characters. */
const PART_BYTES = 192 * 1024;

/** Withheld bytes by placeholder, during a call of `withholding`. */
let withheld: Map<string, Uint8Array> | undefined;

/** Runs `make` and collects the bytes of large files and arrays, which it replaces by placeholders. */
export function withholding<T>(make: () => T): { readonly made: T; readonly files: ReadonlyMap<string, Uint8Array> } {
  const files = new Map<string, Uint8Array>();
  withheld = files;
  try {
    return { made: make(), files };
  } finally {
    withheld = undefined;
  }
}

/** Data URI of a file, with a placeholder for a large file's bytes. */
export function wireUri(file: ModelFile): string {
  return file.dataUri(base64Of);
}

/** Base64 text, or a placeholder for many bytes. */
export function base64Of(bytes: Uint8Array): string {
  if (withheld === undefined || bytes.length < MIN_BYTES) return bytes.toBase64();
  // Hyphens are removed: the output check accepts only base64.
  const mark = crypto.randomUUID().replaceAll("-", "");
  withheld.set(mark, bytes);
  return mark;
}

/** Replaces the placeholders by the files' base64, part by part on demand. */
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
