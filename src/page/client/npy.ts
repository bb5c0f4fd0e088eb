/** Reads NumPy's .npy files: numbers of any shape. */
import type { Json } from "./value.ts";

type Read = (view: DataView, at: number) => number;

const readers: Readonly<Record<string, readonly [bytes: number, read: Read]>> = {
  "<f8": [8, (view, at) => view.getFloat64(at, true)],
  "<f4": [4, (view, at) => view.getFloat32(at, true)],
  "<i8": [8, (view, at) => Number(view.getBigInt64(at, true))],
  "<i4": [4, (view, at) => view.getInt32(at, true)],
  "<i2": [2, (view, at) => view.getInt16(at, true)],
  "|i1": [1, (view, at) => view.getInt8(at)],
  "|u1": [1, (view, at) => view.getUint8(at)],
  "|b1": [1, (view, at) => view.getUint8(at)],
};

/** @returns nested lists; @throws Error that says why it cannot be read */
export function listsOfNpy(bytes: ArrayBuffer): Json {
  const view = new DataView(bytes);
  if (bytes.byteLength < 12 || view.getUint32(0) !== 0x934e554d) throw new Error("This is no .npy file.");
  const isShort = view.getUint8(6) === 1;
  const start = isShort ? 10 : 12;
  const length = isShort ? view.getUint16(8, true) : view.getUint32(8, true);
  const header = new TextDecoder("latin1").decode(new Uint8Array(bytes, start, length));
  const type = /'descr':\s*'([^']+)'/.exec(header)?.[1] ?? "";
  const shape = (/'shape':\s*\(([^)]*)\)/.exec(header)?.[1] ?? "")
    .split(",")
    .filter((size) => size.trim() !== "")
    .map(Number);
  const reader = readers[type];
  if (reader === undefined) throw new Error(`Arrays of ${type} cannot be read here; save it as float32.`);
  if (/'fortran_order':\s*True/.test(header)) throw new Error("Save the array in C order: numpy.ascontiguousarray.");
  const [size, read] = reader;
  let at = start + length;
  const nested = (depth: number): Json => {
    if (depth < shape.length) return Array.from({ length: shape[depth] ?? 0 }, () => nested(depth + 1));
    const value = read(view, at);
    at += size;
    return value;
  };
  return nested(0);
}
