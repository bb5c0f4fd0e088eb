/** Encodes and decodes BYTES tensors: each element is its length as a little-endian u32, followed by its bytes. */
import { unfit } from "./tensors.ts";

const LENGTH_BYTES = 4;

/** @param count elements by the shape. @throws ProblemError 400 if the bytes do not have exactly `count` elements */
export function elementsIn(name: string, bytes: Uint8Array, count: number): Uint8Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let at = 0;
  const elements = Array.from({ length: count }, (_, i) => {
    if (at === bytes.length) throw unfit(`input '${name}' has ${i} elements, and its shape has ${count}`);
    const begin = at + LENGTH_BYTES;
    at = begin <= bytes.length ? begin + view.getUint32(at, true) : Infinity;
    if (at > bytes.length) throw unfit(`input '${name}', element ${i}: its bytes end before its length`);
    return bytes.subarray(begin, at);
  });
  if (at < bytes.length) throw unfit(`input '${name}' has more elements than its shape, which has ${count}`);
  return elements;
}

export function encodeElements(elements: readonly Uint8Array[]): Uint8Array {
  const lengths = elements.map(({ length }) => new Uint8Array(Uint32Array.of(length).buffer));
  const parts = elements.flatMap((element, i) => [lengths[i] ?? element, element]);
  return Bun.concatArrayBuffers(parts, Infinity, true);
}
