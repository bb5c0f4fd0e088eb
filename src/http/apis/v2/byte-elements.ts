/** Encodes and decodes BYTES tensors: each element is its length as a little-endian u32, followed by its bytes. */
import type { GivenData } from "./infer-request.ts";
import { unfit } from "./tensors.ts";

const LENGTH_BYTES = 4;

/**
 * Finds the elements of an input, without an object for each.
 * @param count elements by the shape
 * @throws ProblemError 400 if the bytes do not have exactly `count` elements
 */
export function elementsIn(
  name: string,
  { form, bytes }: Exclude<GivenData, { form: "json" }>,
  count: number,
): (index: number) => Uint8Array {
  if (form === "element") return () => bytes;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const ends = new Uint32Array(count);
  let at = 0;
  for (let i = 0; i < count; i++) {
    if (at === bytes.length) throw unfit(`input '${name}' has ${i} elements, and its shape has ${count}`);
    const begin = at + LENGTH_BYTES;
    at = begin <= bytes.length ? begin + view.getUint32(at, true) : Infinity;
    if (at > bytes.length) throw unfit(`input '${name}', element ${i}: its bytes end before its length`);
    ends[i] = at;
  }
  if (at < bytes.length) throw unfit(`input '${name}' has more elements than its shape, which has ${count}`);
  return (index) => bytes.subarray((index === 0 ? 0 : (ends[index - 1] ?? 0)) + LENGTH_BYTES, ends[index]);
}

export function encodeElements(elements: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(elements.reduce((sum, { length }) => sum + LENGTH_BYTES + length, 0));
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const element of elements) {
    view.setUint32(at, element.length, true);
    bytes.set(element, at + LENGTH_BYTES);
    at += LENGTH_BYTES + element.length;
  }
  return bytes;
}
