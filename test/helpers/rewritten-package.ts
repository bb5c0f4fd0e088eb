/** Changes packages of AOTInductor: false metadata, or other code. */
import { crc32 } from "node:zlib";

/**
 * Replaces values of the package's metadata. It drops another value and pads with spaces, so that the length stays the
 * same.
 */
export function withMetadata(zip: Buffer, change: Readonly<Record<string, string>>): Buffer {
  return rewritten(zip, (name, content) => {
    if (!name.endsWith("_metadata.json")) return content;
    const { AOTI_COMPUTE_CAPABILITY: _, ...metadata } = JSON.parse(content.toString());
    return Buffer.from(JSON.stringify({ ...metadata, ...change }).padEnd(content.length));
  });
}

/** Replaces a text in the package's compiled code by a text of the same length. */
export function withCode(zip: Buffer, from: string, to: string): Buffer {
  return withText(zip, ".so", from, to);
}

/** Replaces a text in the package's C++ source by a text of the same length. */
export function withSource(zip: Buffer, from: string, to: string): Buffer {
  return withText(zip, ".wrapper.cpp", from, to);
}

function withText(zip: Buffer, ending: string, from: string, to: string): Buffer {
  return rewritten(zip, (name, content) =>
    name.endsWith(ending) ? Buffer.from(content.toString("latin1").replaceAll(from, to), "latin1") : content,
  );
}

/** Changes files of an uncompressed zip archive. Lengths stay the same, and checksums are corrected. */
function rewritten(zip: Buffer, change: (name: string, content: Buffer) => Buffer): Buffer {
  const result = Buffer.from(zip);
  const end = result.lastIndexOf("PK\x05\x06", result.length, "latin1");
  let header = result.readUInt32LE(end + 16);
  for (let left = result.readUInt16LE(end + 10); left > 0; left--) {
    const [size, nameLength] = [result.readUInt32LE(header + 20), result.readUInt16LE(header + 28)];
    const name = result.toString("utf8", header + 46, header + 46 + nameLength);
    const local = result.readUInt32LE(header + 42);
    const begin = local + 30 + result.readUInt16LE(local + 26) + result.readUInt16LE(local + 28);
    const before = result.subarray(begin, begin + size);
    const after = change(name, before);
    if (after.length !== size) throw new Error(`${name} would have ${after.length} bytes in place of ${size}`);
    after.copy(before);
    for (const sum of [local + 14, header + 16]) result.writeUInt32LE(crc32(after), sum);
    header += 46 + nameLength + result.readUInt16LE(header + 30) + result.readUInt16LE(header + 32);
  }
  return result;
}
