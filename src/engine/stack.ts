/** The tensors of a batch's items as one tensor for each declared input, padded where that is declared. */
import { bfloat16Bits, float16Bits } from "../model/elements.ts";
import { arrayTypes, type DType, type Tensor, type TensorSpecs } from "../model/tensor.ts";
import { setAt } from "../model/tensor-memory.ts";

/**
 * @param items the input tensors of each item, in the order of the declared names; checked against the declarations
 * @returns by name, with the items as first dimension
 */
export function stack(specs: TensorSpecs, items: readonly (readonly Tensor[])[]): Record<string, Tensor> {
  const stacked: Record<string, Tensor> = {};
  for (const [at, [name, { dtype, dims }]] of Object.entries(specs).entries()) {
    const tensors = items.flatMap((item) => item[at] ?? []);
    const sizes = dims.map((_, dim) => Math.max(...tensors.map(({ shape }) => shape[dim] ?? 0)));
    const rowLength = sizes.reduce((product, size) => product * size, 1);
    const data = new arrayTypes[dtype](items.length * rowLength);
    const fills = dims.map((dim) => (typeof dim === "object" ? elementOf(dtype, dim.value) : 0));
    for (const [row, tensor] of tensors.entries()) {
      if (tensor.data.length === rowLength) setAt(data, tensor.data, row * rowLength);
      else copyPadded(tensor, { data, offset: row * rowLength, sizes, fills });
    }
    stacked[name] = { dtype, shape: [items.length, ...sizes], data };
  }
  return stacked;
}

type Elements = Tensor["data"];

/** Where a row goes in the batch's tensor, and what fills up each dimension. */
interface Target {
  readonly data: Elements;
  readonly offset: number;
  readonly sizes: readonly number[];
  readonly fills: readonly (number | bigint)[];
}

/** Copies a row into the corner of a larger one, innermost runs at once, and fills the rest by dimension. */
function copyPadded({ shape, data: from }: Tensor, { data: to, offset, sizes, fills }: Target): void {
  let read = 0;
  const copy = (dim: number, write: number): void => {
    const inner = sizes.slice(dim + 1).reduce((product, size) => product * size, 1);
    const given = shape[dim] ?? 0;
    const size = sizes[dim] ?? 0;
    if (dim === sizes.length - 1) {
      setAt(to, from.subarray(read, read + given), write);
      read += given;
    } else {
      for (let i = 0; i < given; i++) copy(dim + 1, write + i * inner);
    }
    fillWith(to, fills[dim] ?? 0, write + given * inner, write + size * inner);
  };
  copy(0, offset);
}

function fillWith(to: Elements, value: number | bigint, begin: number, end: number): void {
  if (to instanceof BigInt64Array) to.fill(BigInt(value), begin, end);
  else to.fill(Number(value), begin, end);
}

/** The value as the dtype's array holds it: 16-bit floats are held as their bits. */
function elementOf(dtype: DType, value: number): number | bigint {
  if (dtype === "int64") return BigInt(value);
  if (dtype === "float16") return float16Bits(value);
  if (dtype === "bfloat16") return bfloat16Bits(value);
  return value;
}
