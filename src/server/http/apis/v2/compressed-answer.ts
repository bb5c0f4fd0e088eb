/** Compresses answers with gzip or deflate, like Triton, for clients that accept it. */
import { promisify } from "node:util";
import * as zlib from "node:zlib";

/** Smaller answers are not compressed, since they fit in one network packet. */
const MIN_BYTES = 1024;
/** The fastest level: most answers are numbers, which higher levels hardly compress better. */
const options = { level: zlib.constants.Z_BEST_SPEED };

const encoders = {
  gzip: promisify<Uint8Array, zlib.ZlibOptions, Buffer<ArrayBuffer>>(zlib.gzip),
  deflate: promisify<Uint8Array, zlib.ZlibOptions, Buffer<ArrayBuffer>>(zlib.deflate),
};
type Encoding = keyof typeof encoders;

export interface EncodedAnswer {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly headers: Readonly<Record<string, string>>;
}

/** Compresses the answer if the client accepts it. @param accepted value of the header Accept-Encoding */
export async function compressedAnswer(
  answer: Uint8Array<ArrayBuffer>,
  accepted: string | undefined,
): Promise<EncodedAnswer> {
  const encoding = answer.length < MIN_BYTES ? undefined : encodingFor(accepted ?? "");
  if (encoding === undefined) return { bytes: answer, headers: {} };
  return { bytes: await encoders[encoding](answer, options), headers: { "Content-Encoding": encoding } };
}

/** The encoding with the highest weight, gzip if both weights are equal; undefined if the client accepts neither. */
function encodingFor(accepted: string): Encoding | undefined {
  const weights = new Map<string, number>();
  for (const entry of accepted.toLowerCase().split(",")) {
    const [, name, weight = "1"] = /^\s*([^\s;]+)\s*(?:;\s*q=([\d.]+)\s*)?$/.exec(entry) ?? [];
    if (name !== undefined) weights.set(name, Number(weight));
  }
  const weightOf = (encoding: Encoding) => weights.get(encoding) ?? weights.get("*") ?? 0;
  const [gzip, deflate] = [weightOf("gzip"), weightOf("deflate")];
  if (Math.max(gzip, deflate) === 0) return undefined;
  return gzip >= deflate ? "gzip" : "deflate";
}
