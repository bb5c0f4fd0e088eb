/** Makes items for trial runs: the tensors of the example with other values or other sizes. */
import { elements } from "../../author/elements.ts";
import { arrayTypes, countOf, type Dim, type DType, type Tensor, type TensorSpecs } from "../../author/tensor.ts";
import { setAt } from "../../author/tensor-memory.ts";
import { isObject } from "../../base/json.ts";
import { FILE_KEYWORD, type JsonSchema } from "../../base/schemas/json-schema.ts";

type Item = readonly Tensor[];

/** An item of the same sizes, all zero. Equal rows would hide that weights mix the rows of a batch. */
export function zeroed(item: Item): Item {
  return item.map((each) => ({ ...each, data: new arrayTypes[each.dtype](each.data.length) }));
}

/** The example with changed sizes. The function repeats elements, because other numbers may be invalid ids. */
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

/** The item with sizes that depend on the declared dimensions. */
export function lengthened(inputs: TensorSpecs, item: Item, grow: (size: number, dim: Dim) => number): Item {
  const dims = Object.values(inputs).map((spec) => spec.dims);
  return resized(item, (size, input, at) => grow(size, dims[input]?.[at] ?? size));
}

export interface ItemOfValues {
  /** How the values differ from the values of the example, in words. */
  readonly change: string;
  readonly item: Item;
}

const SCALE = 10;
/** Relative change of a number in a nearly equal item. */
const NUDGE = 1e-5;

/**
 * Variants of the item: its numbers negated, scaled, and replaced at random. Integers stay, because they may be ids.
 * Masks stay: float tensors of only 0 and 1, in items with other inputs.
 * @param isFree whether the input may give any number. Otherwise all numbers stay between the least and the largest of
 * the example, because other numbers may be impossible, as beyond the pixels of a picture
 */
export function otherValues(item: Item, isFree: boolean): readonly ItemOfValues[] {
  const random = randomFrom(1);
  const changes: readonly (readonly [string, Change])[] = isFree
    ? [
        ["negated", (value) => -value],
        [`times ${SCALE}`, (value) => SCALE * value],
        ["at random", (_, least, most) => (2 * random() - 1) * (Math.max(-least, most) || 1)],
      ]
    : [
        ["mirrored", (value, least, most) => least + most - value],
        ["at random", (_, least, most) => least + random() * (most - least)],
      ];
  return changes.flatMap(([change, make]) => {
    const other = varied(item, make);
    return other === undefined ? [] : [{ change, item: other }];
  });
}

/** The item with half of each float. Undefined for an item without floats. */
export function halved(item: Item): Item | undefined {
  return varied(item, (value) => value / 2);
}

/** The item with nearly equal floats, other ones for each seed. Undefined for an item without floats. */
export function nudged(item: Item, seed: number): Item | undefined {
  const random = randomFrom(seed);
  return varied(item, (value) => value * (1 + (2 * random() - 1) * NUDGE));
}

/** Pseudo-random numbers from 0 to 1: a Lehmer generator with the factor of "minimal standard" (Park and Miller). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48271) % 0x7fffffff;
    return state / 0x7fffffff;
  };
}

/**
 * Whether the JSON Schema of an input allows unlimited numbers. A schema with a file allows none: the tensors come from
 * the file, whose pixels or samples have limits.
 */
export function allowsAnyNumber(schema: JsonSchema): boolean {
  let isUnlimited = false;
  const text = JSON.stringify(schema, (_, node: unknown) => {
    if (isObject(node) && node.type === "number") isUnlimited ||= !("minimum" in node && "maximum" in node);
    return node;
  });
  return isUnlimited && !text.includes(`"${FILE_KEYWORD}":`);
}

/** Makes a number from a number of a tensor, and from the least and the largest number of this tensor. */
type Change = (value: number, least: number, most: number) => number;

function varied(item: Item, make: Change): Item | undefined {
  const isVaried = (tensor: Tensor) => isFloat(tensor) && !(item.length > 1 && isMask(tensor));
  if (!item.some(isVaried)) return undefined;
  return item.map((tensor) => (isVaried(tensor) && isFloat(tensor) ? mapped(tensor, make) : tensor));
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

function mapped(tensor: Tensor<(typeof floats)[number]>, make: Change): Tensor {
  const { read, write } = elements[tensor.dtype];
  const values = Array.from(tensor.data, (each) => Number(write(each) ?? 0));
  const least = values.reduce((one, other) => Math.min(one, other), Infinity);
  const most = values.reduce((one, other) => Math.max(one, other), -Infinity);
  const data = new arrayTypes[tensor.dtype](values.length);
  // `read` refuses a changed number that the dtype cannot hold. The original number then stays.
  for (const [i, value] of values.entries()) data[i] = Number(read(make(value, least, most)) ?? tensor.data[i]);
  return { ...tensor, data };
}
