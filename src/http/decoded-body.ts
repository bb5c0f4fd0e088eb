/** Decompresses a request body chunk by chunk, since a small compressed body may have a huge content. */
import { pipeline, Readable, type Transform } from "node:stream";
import * as zlib from "node:zlib";
import { ProblemError } from "./problem.ts";

/** `chunkSize`: bytes of output that zlib decompresses in one task of the thread pool. */
const options = { chunkSize: 64 * 1024 };

/** Compressed bytes that must arrive before a decoder is created, since a decoder takes memory even while its client sends nothing. */
const MIN_ENCODED_BYTES = 1024;

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

/** Counts `bytes` more memory for the request. @throws SconceError `queue_full` */
type Grow = (bytes: number) => void;

/**
 * Finds the decompression for a Content-Encoding.
 * @returns a function that turns the reader of a body into a reader of its decompressed content; undefined if the body is not compressed
 * @throws ProblemError 415 for an unknown Content-Encoding
 */
export function decoderOf(encoding: string | null): ((body: BodyChunks, grow: Grow) => BodyChunks) | undefined {
  const name = encoding?.trim().toLowerCase() ?? "identity";
  if (name === "identity") return undefined;
  const decoder = decoders.get(name);
  if (decoder === undefined) {
    const known = contentEncodings.join(", ");
    const detail = `expected one Content-Encoding of ${known}, received ${JSON.stringify(encoding)}`;
    const headers = { "Accept-Encoding": known };
    throw new ProblemError({ code: "unsupported_media_type", detail, headers });
  }
  return (body, grow) => new DecodedChunks(body, { name, decoder, grow });
}

interface Decoding {
  readonly name: string;
  readonly decoder: () => Transform;
  readonly grow: Grow;
}

class DecodedChunks implements BodyChunks {
  readonly #body: BodyChunks;
  readonly #decoding: Decoding;
  #content: (Readable & AsyncIterable<Uint8Array>) | undefined;
  #chunks: AsyncIterator<Uint8Array> | undefined;

  constructor(body: BodyChunks, decoding: Decoding) {
    this.#body = body;
    this.#decoding = decoding;
  }

  async read() {
    const { name, decoder, grow } = this.#decoding;
    if (this.#chunks === undefined) {
      const first = await this.#firstChunks();
      grow(DECODER_BYTES);
      this.#content = pipeline(Readable.from(this.#encoded(first)), decoder(), () => {});
      this.#chunks = this.#content[Symbol.asyncIterator]();
    }
    try {
      const { done, value } = await this.#chunks.next();
      // Copies the chunk: zlib may give two chunks in one ArrayBuffer, and callers transfer the buffer of a chunk to a thread.
      return done ? { done } : { value: new Uint8Array(value) };
    } catch (cause) {
      const detail = `the body cannot be read as ${name}, which its Content-Encoding announces, or it ended too early`;
      throw new ProblemError({ code: "body_unreadable", detail }, { cause });
    }
  }

  async cancel(): Promise<void> {
    this.#content?.destroy();
    await this.#body.cancel();
  }

  async #firstChunks(): Promise<Uint8Array[]> {
    const chunks: Uint8Array[] = [];
    for (let bytes = 0; bytes < MIN_ENCODED_BYTES; ) {
      const { value } = await this.#body.read();
      if (value === undefined) break;
      bytes += value.length;
      chunks.push(value);
    }
    return chunks;
  }

  async *#encoded(first: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
    yield* first;
    for (;;) {
      const { value } = await this.#body.read();
      if (value === undefined) return;
      yield value;
    }
  }
}
