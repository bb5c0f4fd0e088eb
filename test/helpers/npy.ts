/** Files in NumPy's format (numpy.lib.format). */

export interface NpyParts {
  /** Dtype as in Python, such as `'<f4'` with its quotes. */
  readonly descr: string;
  /** Shape as in Python, such as `(2,)`. */
  readonly shape: string;
  readonly data: Uint8Array;
  /** Whether the order is Fortran's: `True` or `False`. */
  readonly order?: string;
  readonly version?: number;
}

export function npy({ descr, shape, data, order = "False", version = 1 }: NpyParts): Uint8Array {
  const header = `{'descr': ${descr}, 'fortran_order': ${order}, 'shape': ${shape}, }\n`;
  const length = Buffer.alloc(version === 1 ? 2 : 4);
  length.writeUIntLE(header.length, 0, length.length);
  return Buffer.concat([Buffer.from([0x93, ...Buffer.from("NUMPY"), version, 0]), length, Buffer.from(header), data]);
}
