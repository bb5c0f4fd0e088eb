/** `stack` and `unstack`, for model code that forms batches of tensors. */
import { SconceError } from "../base/errors.ts";
import { elements, type Value } from "./elements.ts";
import { anything, checkOptions, optionsOf } from "./options.ts";
import { type ArrayOf, arrayTypes, countOf, type DType, describeTensor, ModelTensor, type Tensor } from "./tensor.ts";
import { setAt } from "./tensor-memory.ts";

const stackOptions = optionsOf({ pad: anything });

/**
 * Joins tensors along a new first dimension, as `torch.stack` does.
 * @param pad value that fills each dimension up to the longest tensor. Default: all tensors must have one shape
 * @throws SconceError `tensor_invalid` for an empty list, or tensors whose dtypes or shapes do not fit together
 */
export function stack<D extends DType>(
  tensors: readonly Tensor<D>[],
  options: { readonly pad?: Value } = {},
): ModelTensor<D> {
  checkOptions("stack()", stackOptions, options, "tensor_invalid");
  const { pad } = options;
  const [first] = tensors;
  if (first === undefined) throw new SconceError("tensor_invalid", "stack needs at least one tensor");
  const { dtype } = first;
  for (const tensor of tensors) {
    const isLike = tensor.dtype === dtype && tensor.shape.length === first.shape.length;
    if (isLike && (pad !== undefined || tensor.shape.every((size, dim) => size === first.shape[dim]))) continue;
    const [one, other] = [first, tensor].map((each) => describeTensor(each.dtype, each.shape));
    const fix = isLike ? "; stack(tensors, { pad: 0 }) fills up the shorter one" : "";
    throw new SconceError("tensor_invalid", `stack: ${one} and ${other} do not fit together${fix}`);
  }
  const sizes = first.shape.map((_, dim) => Math.max(...tensors.map(({ shape }) => shape[dim] ?? 0)));
  const count = countOf(sizes);
  const data = new arrayTypes[dtype](tensors.length * count);
  if (pad !== undefined) fill(data, dtype, pad);
  for (const [i, tensor] of tensors.entries()) copy(tensor, { data, sizes, at: i * count });
  return new ModelTensor(dtype, [tensors.length, ...sizes], data as ArrayOf<D>);
}

/** Splits a tensor along its first dimension. The rows share the tensor's memory. */
export function unstack<D extends DType>({ dtype, shape: [rows = 1, ...shape], data }: Tensor<D>): ModelTensor<D>[] {
  const count = countOf(shape);
  return Array.from({ length: rows }, (_, i) => {
    const row = data.subarray(i * count, (i + 1) * count);
    return new ModelTensor(dtype, shape, row as ArrayOf<D>);
  });
}

function fill(data: ArrayOf<DType>, dtype: DType, pad: Value): void {
  const { store, expected } = elements[dtype];
  const stored = store(pad);
  if (stored === undefined) throw new SconceError("tensor_invalid", `stack: pad ${pad} is not ${expected}`);
  if (data instanceof BigInt64Array) data.fill(BigInt(stored));
  else data.fill(Number(stored));
}

interface Place {
  readonly data: ArrayOf<DType>;
  /** Shape of each row after padding. */
  readonly sizes: readonly number[];
  readonly at: number;
}

function copy(tensor: Tensor, { data, sizes, at }: Place): void {
  const visit = (dim: number, from: number, to: number) => {
    const [shape, padded] = [tensor.shape.slice(dim), sizes.slice(dim)];
    if (shape.slice(1).every((size, i) => size === padded[i + 1])) {
      setAt(data, tensor.data.subarray(from, from + countOf(shape)), to);
      return;
    }
    const [size = 0, ...inner] = shape;
    for (let i = 0; i < size; i++) visit(dim + 1, from + i * countOf(inner), to + i * countOf(padded.slice(1)));
  };
  visit(0, 0, at);
}
