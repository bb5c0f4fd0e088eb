/** Makes items for trial runs: the tensors of the example with other values or other sizes. */
import { elements } from "../../author/elements.ts";
import { arrayTypes, countOf, type DType, type Tensor, type TensorSpecs } from "../../author/tensor.ts";
import { setAt } from "../../author/tensor-memory.ts";

type Item = readonly Tensor[];

/** An item of the same sizes, all zero. Equal rows would hide that weights mix the rows of a batch. */
export function zeroed(item: Item): Item {
  return item.map((each) => ({ ...each, data: new arrayTypes[each.dtype](each.data.length) }));
}

/** The example with changed sizes. Its elements are repeated, because other numbers may be invalid ids. */
export function resized(item: Item, sizeOf: (size: number, input: number, dim: number) => number): Item {
  return item.map(({ dtype, shape, data }, input) => {
    const sizes = shape.map((size, dim) => sizeOf(size, input, dim));
    const made = new arrayTypes[dtype](countOf(sizes));
    for (let at = 0; data.length > 0 && at < made.length; at += data.length) {
      setAt(made, data.subarray(0, made.length - at), at);
    }
    return { dtype, shape: sizes, data: made };
  });
}

/** The item, longer in every padded dimension. */
export function lengthened(inputs: TensorSpecs, item: Item, grow: (size: number) => number): Item {
  const dims = Object.values(inputs).map((spec) => spec.dims);
  return resized(item, (size, input, dim) => (typeof dims[input]?.[dim] === "object" ? grow(size) : size));
}

export interface ItemOfValues {
  /** How the values differ from the values of the example, in words. */
  readonly change: string;
  readonly item: Item;
}

const SCALE = 10;
const SEED = 48271;

/**
 * Variants of the item: its numbers negated, scaled, and replaced at random. Integers stay, because they may be ids.
 * Masks stay: float tensors of only 0 and 1, in items with other inputs.
 */
export function otherValues(item: Item): readonly ItemOfValues[] {
  const isVaried = item.map((tensor) => isFloat(tensor) && !(item.length > 1 && isMask(tensor)));
  if (!isVaried.includes(true)) return [];
  const changed = (change: string, make: (value: number, largest: number) => number): ItemOfValues => ({
    change,
    item: item.map((tensor, i) => (isVaried[i] && isFloat(tensor) ? mapped(tensor, make) : tensor)),
  });
  let state = 1;
  const random = () => {
    state = (state * SEED) % 0x7fffffff;
    return (2 * state) / 0x7fffffff - 1;
  };
  return [
    changed("negated", (value) => -value),
    changed(`times ${SCALE}`, (value) => SCALE * value),
    changed("at random", (_, largest) => random() * (largest || 1)),
  ];
}

const floats = ["float32", "float64", "float16", "bfloat16"] as const satisfies readonly DType[];

function isFloat(tensor: Tensor): tensor is Tensor<(typeof floats)[number]> {
  return floats.some((dtype) => dtype === tensor.dtype);
}

function isMask({ dtype, data }: Tensor): boolean {
  const { write } = elements[dtype];
  for (const each of data) if (write(each) !== 0 && write(each) !== 1) return false;
  return true;
}

function mapped(tensor: Tensor<(typeof floats)[number]>, make: (value: number, largest: number) => number): Tensor {
  const { read, write } = elements[tensor.dtype];
  const values = Array.from(tensor.data, (each) => Number(write(each) ?? 0));
  const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const data = new arrayTypes[tensor.dtype](values.length);
  // `read` refuses a changed number that the dtype cannot hold. The original number then stays.
  for (const [i, value] of values.entries()) data[i] = Number(read(make(value, largest)) ?? tensor.data[i]);
  return { ...tensor, data };
}
