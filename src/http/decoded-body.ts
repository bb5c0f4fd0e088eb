/** The content of a compressed body, a part at a time: what a few bytes would become is never there as a whole. */
import { pipeline, Readable, type Transform } from "node:stream";
import * as zlib from "node:zlib";
import { ProblemError } from "./problem.ts";

/** Each part is a turn of the thread pool. */
const options = { chunkSize: 64 * 1024 };

const decoders: ReadonlyMap<string, () => Transform> = new Map([
  ["gzip", () => zlib.createGunzip(options)],
  ["x-gzip", () => zlib.createGunzip(options)],
  ["deflate", () => zlib.createInflate(options)],
  ["br", () => zlib.createBrotliDecompress(options)],
  ["zstd", () => zlib.createZstdDecompress(options)],
]);

export const contentEncodings = ["gzip", "deflate", "br", "zstd", "identity"] as const;

/** As the reader of a stream has them. */
export interface Parts {
  read(): Promise<{ readonly done?: boolean | undefined; readonly value?: Uint8Array<ArrayBuffer> | undefined }>;
  cancel(): Promise<unknown>;
}

/**
 * @returns what reads a body with this Content-Encoding; undefined where it lies there as it is
 * @throws ProblemError 415
 */
export function decoderOf(encoding: string | null): ((body: ReadableStream<Uint8Array>) => Parts) | undefined {
  const name = encoding?.trim().toLowerCase() ?? "identity";
  if (name === "identity") return undefined;
  const decoder = decoders.get(name);
  if (decoder === undefined) {
    const known = contentEncodings.join(", ");
    const detail = `expected one Content-Encoding of ${known}, received ${JSON.stringify(encoding)}`;
    const headers = { "Accept-Encoding": known };
    throw new ProblemError({ status: 415, code: "unsupported_media_type", detail, headers });
  }
  return (body) => {
    const content = pipeline(Readable.from(body), decoder(), () => {});
    const parts: AsyncIterator<Uint8Array> = content[Symbol.asyncIterator]();
    const read = async () => {
      try {
        const { done, value } = await parts.next();
        // Two parts may lie in one buffer, which is given away with the first.
        return done ? { done } : { value: new Uint8Array(value) };
      } catch (cause) {
        const detail = `the body cannot be read as ${name}, which its Content-Encoding announces, or it ended too early`;
        throw new ProblemError({ status: 400, code: "body_unreadable", detail }, { cause });
      }
    };
    return { read, cancel: async () => content.destroy() };
  };
}
