/** The content of a compressed body, a part at a time: what a few bytes would become is never there as a whole. */
import { pipeline, Readable, type Transform } from "node:stream";
import * as zlib from "node:zlib";
import { ProblemError } from "./problem.ts";

/** Each part is a turn of the thread pool. */
const options = { chunkSize: 64 * 1024 };

/** A body begins to be decoded once as many bytes have come, or all of it: a client that sends fewer and waits has no decoder. */
const LEAST_BYTES = 1024;

/** Of a decoder, beside what it decodes; zstd and Brotli took 63 kB before the first byte of content. */
export const DECODER_BYTES = 128 * 1024;

/** Longest distance in a body that zstd looks back: 8 MB, as RFC 9659 has it for HTTP. */
const zstdOptions = { ...options, params: { [zlib.constants.ZSTD_d_windowLogMax]: 23 } };

const decoders: ReadonlyMap<string, () => Transform> = new Map([
  ["gzip", () => zlib.createGunzip(options)],
  ["x-gzip", () => zlib.createGunzip(options)],
  ["deflate", () => zlib.createInflate(options)],
  ["br", () => zlib.createBrotliDecompress(options)],
  ["zstd", () => zlib.createZstdDecompress(zstdOptions)],
]);

export const contentEncodings = ["gzip", "deflate", "br", "zstd", "identity"] as const;

/** As the reader of a stream has them. */
export interface Parts {
  read(): Promise<{ readonly done?: boolean | undefined; readonly value?: Uint8Array<ArrayBuffer> | undefined }>;
  cancel(): Promise<unknown>;
}

/** Counts the bytes of a decoder before it is made. @throws where there is no room */
type Take = (bytes: number) => void;

/**
 * @returns a reader of bodies with this Content-Encoding; undefined for a body that is not encoded
 * @throws ProblemError 415
 */
export function decoderOf(encoding: string | null): ((body: Parts, take: Take) => Parts) | undefined {
  const name = encoding?.trim().toLowerCase() ?? "identity";
  if (name === "identity") return undefined;
  const decoder = decoders.get(name);
  if (decoder === undefined) {
    const known = contentEncodings.join(", ");
    const detail = `expected one Content-Encoding of ${known}, received ${JSON.stringify(encoding)}`;
    const headers = { "Accept-Encoding": known };
    throw new ProblemError({ status: 415, code: "unsupported_media_type", detail, headers });
  }
  return (body, take) => new DecodedParts(body, { name, decoder, take });
}

interface Decoding {
  readonly name: string;
  readonly decoder: () => Transform;
  readonly take: Take;
}

class DecodedParts implements Parts {
  readonly #body: Parts;
  readonly #decoding: Decoding;
  #content: (Readable & AsyncIterable<Uint8Array>) | undefined;
  #parts: AsyncIterator<Uint8Array> | undefined;

  constructor(body: Parts, decoding: Decoding) {
    this.#body = body;
    this.#decoding = decoding;
  }

  async read() {
    const { name, decoder, take } = this.#decoding;
    if (this.#parts === undefined) {
      const begin = await this.#begin();
      take(DECODER_BYTES);
      this.#content = pipeline(Readable.from(this.#encoded(begin)), decoder(), () => {});
      this.#parts = this.#content[Symbol.asyncIterator]();
    }
    try {
      const { done, value } = await this.#parts.next();
      // Two parts may lie in one buffer, which is given away with the first.
      return done ? { done } : { value: new Uint8Array(value) };
    } catch (cause) {
      const detail = `the body cannot be read as ${name}, which its Content-Encoding announces, or it ended too early`;
      throw new ProblemError({ status: 400, code: "body_unreadable", detail }, { cause });
    }
  }

  async cancel(): Promise<void> {
    this.#content?.destroy();
    await this.#body.cancel();
  }

  /** The first bytes: enough to be worth a decoder, or all. */
  async #begin(): Promise<Uint8Array[]> {
    const chunks: Uint8Array[] = [];
    for (let bytes = 0; bytes < LEAST_BYTES; ) {
      const { value } = await this.#body.read();
      if (value === undefined) break;
      bytes += value.length;
      chunks.push(value);
    }
    return chunks;
  }

  async *#encoded(begin: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
    yield* begin;
    for (;;) {
      const { value } = await this.#body.read();
      if (value === undefined) return;
      yield value;
    }
  }
}
