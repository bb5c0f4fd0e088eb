/** Decompresses a request body chunk by chunk, since a small compressed body may have a huge content. */
import { pipeline, Readable, type Transform } from "node:stream";
import * as zlib from "node:zlib";
import { ProblemError } from "./problem.ts";

/** `chunkSize`: bytes of output that zlib decompresses in one task of the thread pool. */
const options = { chunkSize: 64 * 1024 };

/** Memory of a decoder without its input and output. zstd and Brotli measured 63 kB before the first byte of content. */
export const DECODER_BYTES = 128 * 1024;

/** The largest zstd window that HTTP allows: 2^23 bytes (RFC 9659). */
const zstdOptions = { ...options, params: { [zlib.constants.ZSTD_d_windowLogMax]: 23 } };

const decoders: ReadonlyMap<string, () => Transform> = new Map([
  ["gzip", () => zlib.createGunzip(options)],
  ["x-gzip", () => zlib.createGunzip(options)],
  ["deflate", () => zlib.createInflate(options)],
  ["br", () => zlib.createBrotliDecompress(options)],
  ["zstd", () => zlib.createZstdDecompress(zstdOptions)],
]);

export const contentEncodings = ["gzip", "deflate", "br", "zstd", "identity"] as const;

/** The methods of ReadableStreamDefaultReader that decompression needs. */
export interface BodyChunks {
  read(): Promise<{ readonly done?: boolean | undefined; readonly value?: Uint8Array<ArrayBuffer> | undefined }>;
  cancel(): Promise<unknown>;
}

/**
 * Finds the decompression for a Content-Encoding.
 * @returns a function that turns the reader of a body into a reader of its decompressed content; undefined if the body is not compressed
 * @throws ProblemError 415 for an unknown Content-Encoding
 */
export function decoderOf(encoding: string | null): ((body: BodyChunks) => BodyChunks) | undefined {
  const name = encoding?.trim().toLowerCase() ?? "identity";
  if (name === "identity") return undefined;
  const decoder = decoders.get(name);
  if (decoder === undefined) {
    const known = contentEncodings.join(", ");
    const detail = `expected one Content-Encoding of ${known}, received ${JSON.stringify(encoding)}`;
    const headers = { "Accept-Encoding": known };
    throw new ProblemError({ code: "unsupported_media_type", detail, headers });
  }
  return (body) => {
    const content = pipeline(Readable.from(chunksOf(body)), decoder(), () => {})[Symbol.asyncIterator]();
    return {
      async read() {
        try {
          const { value }: { value?: Uint8Array | undefined } = await content.next();
          // Copies the piece: zlib may give two pieces in one ArrayBuffer, and callers transfer the buffer of a piece.
          return { value: value && new Uint8Array(value) };
        } catch (cause) {
          const detail = `the body cannot be read as ${name}, which its Content-Encoding announces, or it ended too early`;
          throw new ProblemError({ code: "body_unreadable", detail }, { cause });
        }
      },
      async cancel() {
        await body.cancel();
        await content.return?.();
      },
    };
  };
}

async function* chunksOf(body: BodyChunks): AsyncGenerator<Uint8Array> {
  for (;;) {
    const { value } = await body.read();
    if (value === undefined) return;
    yield value;
  }
}
