/** Views and texts of bytes. */

/** The same memory as a Buffer, which reads numbers and texts. */
export function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** Formats a byte count with a binary unit, such as `437.2 MiB`. */
export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

/** UTF-8 as text, with its byte order mark; undefined for other bytes. */
export function textOfUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** Joins byte strings. Each follows its length, a little-endian u32. */
export function joinedWithLengths(parts: readonly Uint8Array[]): Uint8Array {
  const pieces = parts.flatMap((part) => [new Uint8Array(Uint32Array.of(part.length).buffer), part]);
  return Bun.concatArrayBuffers(pieces, Infinity, true);
}

/** Splits joined byte strings, without a copy. Undefined if the bytes are not exactly `count` of them. */
export function splitByLengths(bytes: Uint8Array, count: number): Uint8Array[] | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const parts: Uint8Array[] = [];
  let at = 0;
  while (at + 4 <= bytes.length && parts.length < count) {
    const begin = at + 4;
    at = begin + view.getUint32(at, true);
    parts.push(bytes.subarray(begin, at));
  }
  return at === bytes.length && parts.length === count ? parts : undefined;
}
