/** Decompresses a body by its Content-Encoding, up to a size limit. */
import * as zlib from "node:zlib";
import { codeOf } from "../../base/errors.ts";

export type Decoded =
  | { readonly bytes: Uint8Array }
  | { readonly bytes?: undefined; readonly isTooLarge: boolean; readonly cause: unknown };

type Done = (error: Error | null, bytes: Uint8Array) => void;
type Decoder = (body: Uint8Array, maxOutputLength: number, done: Done) => void;

const gunzip: Decoder = (body, maxOutputLength, done) => zlib.gunzip(body, { maxOutputLength }, done);

const decoders = new Map<string, readonly Decoder[]>([
  ["gzip", [gunzip]],
  ["x-gzip", [gunzip]],
  [
    "deflate",
    [
      (body, maxOutputLength, done) => zlib.inflate(body, { maxOutputLength }, done),
      // The second try, for servers that omit the zlib header that the standard requires.
      (body, maxOutputLength, done) => zlib.inflateRaw(body, { maxOutputLength }, done),
    ],
  ],
  ["br", [(body, maxOutputLength, done) => zlib.brotliDecompress(body, { maxOutputLength }, done)]],
  ["zstd", [(body, maxOutputLength, done) => zlib.zstdDecompress(body, { maxOutputLength }, done)]],
]);

/** The encoding in a `Content-Encoding` header; undefined if the body is not encoded. */
export function encodingOf(header: string | null): string | undefined {
  const named = header?.trim() ?? "";
  return named === "" || named.toLowerCase() === "identity" ? undefined : named;
}

/**
 * Decompresses gzip, deflate, br or zstd on another thread, up to `maxBytes`. Other encodings and lists of encodings
 * fail.
 */
export async function decodeContent(
  body: Uint8Array,
  { encoding, maxBytes }: { encoding: string; maxBytes: number },
): Promise<Decoded> {
  let cause: unknown;
  for (const decoder of decoders.get(encoding.toLowerCase()) ?? []) {
    const decoded = Promise.withResolvers<Uint8Array>();
    decoder(body, maxBytes, (error, bytes) => (error ? decoded.reject(error) : decoded.resolve(bytes)));
    try {
      return { bytes: await decoded.promise };
    } catch (error) {
      if (isTooLarge(error)) return { isTooLarge: true, cause: error };
      cause = error;
    }
  }
  return { isTooLarge: false, cause };
}

function isTooLarge(error: unknown): boolean {
  return codeOf(error) === "ERR_BUFFER_TOO_LARGE";
}
