/** Encodes and decodes BYTES tensors: each element is its length as a little-endian u32, followed by its bytes. */
import type { GivenData } from "./infer-request.ts";
import { unfit } from "./tensors.ts";

const LENGTH_BYTES = 4;

/**
 * Splits the bytes of an input into elements.
 * @throws ProblemError 400 if the length of an element exceeds the remaining bytes
 */
export function decodeElements(name: string, { form, bytes }: Exclude<GivenData, { form: "json" }>): Uint8Array[] {
  if (form === "element") return [bytes];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const elements: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; ) {
    const begin = at + LENGTH_BYTES;
    const end = begin <= bytes.length ? begin + view.getUint32(at, true) : Infinity;
    if (end > bytes.length) throw unfit(`input '${name}', element ${elements.length}: its bytes end before its length`);
    elements.push(bytes.subarray(begin, end));
    at = end;
  }
  return elements;
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
