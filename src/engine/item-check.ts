/** Checks an item's tensors against the declared ones, and computes the key of items that may share a batch. */

import { arrayTypes, type DType, describeTensor, isSize, type Tensor, type TensorSpecs } from "../author/tensor.ts";
import { SconceError } from "../base/errors.ts";

export interface CheckedItem extends ShapeKey {
  readonly tensors: readonly Tensor[];
}

export interface ShapeKey {
  /**
   * The **shape key**: the sizes of the free dimensions. With several padded dimensions also the range of each of their
   * sizes. Items with the same key share a batch.
   */
  readonly key: string;
  /** The size of each padded dimension, by its name. Items of similar sizes share a batch. */
  readonly padded: ReadonlyMap<string, number>;
}

export interface Sizes {
  readonly free: Map<string, number>;
  readonly padded: Map<string, number>;
}

/** The key of items whose dimensions all have fixed sizes. */
export const fixedKey: ShapeKey = { key: "", padded: new Map() };

export function shapeKey({ free, padded }: Sizes): ShapeKey {
  const equal = [...free].map(([name, size]) => `${name}=${size}`);
  // Equal products of several sizes may belong to different sizes.
  if (padded.size > 1) for (const [name, size] of padded) equal.push(`${name}~${rangeOf(size)}`);
  return { key: equal.join(), padded };
}

/** The range of a size: sizes in one range differ by less than a factor of √2, plus 7. */
function rangeOf(size: number): number {
  return Math.floor(2 * Math.log2(size + 16));
}

/**
 * Limit for the product of an empty tensor's nonzero sizes. An empty tensor costs a client nothing, but padding it may
 * cost the server memory.
 */
const MAX_EMPTY_SIZES = 2 ** 20;

/**
 * Creates the check for a model's declared inputs.
 *
 * @returns a function that throws SconceError `tensor_invalid` with the name, the declared and the given tensor
 */
export function itemCheck(specs: TensorSpecs): (given: Readonly<Record<string, Tensor>>) => CheckedItem {
  const plans = Object.entries(specs).map(([name, spec]) => ({ name, spec }));
  const names = new Set(Object.keys(specs));
  const hasNames = plans.some(({ spec: { dims } }) => dims.some((dim) => typeof dim !== "number"));
  return (given) => {
    // JavaScript authors have no type check.
    if (typeof given !== "object" || given === null)
      throw invalid("preprocess gave no tensors; return { name: tensor(…) }");
    for (const name in given) {
      if (!names.has(name))
        throw invalid(`preprocess gave a tensor "${name}", which is not declared (declared: ${[...names].join(", ")})`);
    }
    const sizes = hasNames ? { free: new Map<string, number>(), padded: new Map<string, number>() } : undefined;
    const tensors: Tensor[] = [];
    for (const { name, spec } of plans) {
      const tensor = given[name];
      if (tensor === undefined) throw invalid(`preprocess gave no tensor "${name}"`);
      checkTensor(name, spec, tensor, sizes);
      tensors.push(tensor);
    }
    const { key, padded } = sizes === undefined ? fixedKey : shapeKey(sizes);
    return { tensors, key, padded };
  };
}

function checkTensor(name: string, spec: TensorSpecs[string], tensor: Tensor, sizes: Sizes | undefined): void {
  const { dtype, dims } = spec;
  const fail = (reason: string): SconceError =>
    invalid(`input "${name}": ${describeTensor(dtype, dims)} was declared, preprocess gave ${reason}`);
  const { shape, data } = tensor ?? {};
  if (!Array.isArray(shape) || !ArrayBuffer.isView(data)) throw fail("no tensor; make one with tensor(data, shape)");
  if (tensor.dtype !== dtype || !(data instanceof arrayTypes[dtype]))
    throw fail(`${describeTensor(tensor.dtype, shape)}; ${howMade(dtype)}`);
  if (shape.length !== dims.length) throw fail(describeTensor(tensor.dtype, shape));
  let count = 1;
  for (let i = 0; i < dims.length; i++) {
    const dim = dims[i];
    const size = shape[i] ?? 0;
    count *= size;
    if (typeof dim === "number") {
      if (size !== dim) throw fail(describeTensor(tensor.dtype, shape));
    } else if (dim !== undefined && sizes !== undefined) {
      if (!isSize(size)) throw fail(describeTensor(tensor.dtype, shape));
      const [label, named] = typeof dim === "string" ? [dim, sizes.free] : [dim.name, sizes.padded];
      const known = named.get(label);
      if (known !== undefined && known !== size) throw fail(`two sizes for "${label}", ${known} and ${size}`);
      named.set(label, size);
    }
  }
  // Padding an empty tensor may allocate memory for its nonzero sizes.
  if (count === 0 && shape.reduce((product, size) => product * Math.max(1, size), 1) > MAX_EMPTY_SIZES)
    throw fail(`an empty tensor of the shape [${shape}]; the other sizes of one come to at most ${MAX_EMPTY_SIZES}`);
  if (count !== data.length) throw fail(`${data.length} elements for the shape [${shape}]`);
}

function howMade(dtype: DType): string {
  return `a ${dtype} tensor is made with tensor(new ${arrayTypes[dtype].name}(…), shape, "${dtype}")`;
}

function invalid(message: string): SconceError {
  return new SconceError("tensor_invalid", message);
}

/** The shape key of items that share a batch only with each other. */
export function separateKey(key: string): string {
  return `separate ${key}`;
}
