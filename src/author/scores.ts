/** Functions for model outputs that are scores of classes: `argmax`, `topK` and `softmax`. */
import { SconceError } from "../base/errors.ts";
import { ModelTensor, numbersOf, type Tensor } from "./tensor.ts";

/** An element that `topK` selects. */
export interface Ranked {
  readonly index: number;
  readonly score: number;
}

/**
 * The index of the largest element, as PyTorch's `argmax` without a dimension: it counts in row-major order. The first
 * of equal elements wins, and NaN is the largest value.
 * @throws SconceError `tensor_invalid` for an empty tensor
 */
export function argmax(tensor: Tensor): number {
  const numbers = numbersOf(tensor);
  if (numbers.length === 0) throw new SconceError("tensor_invalid", "argmax: the tensor has no element");
  let best = 0;
  for (let i = 1; i < numbers.length; i++) if (isBefore(numbers[i], numbers[best])) best = i;
  return best;
}

/**
 * The `k` largest elements of a vector, the largest first; all elements if there are fewer. Equal elements keep their
 * order, and NaN is the largest value.
 * @param labels a label for each element
 * @throws SconceError `tensor_invalid` for a tensor with another rank than 1, or another number of labels
 */
export function topK(tensor: Tensor, k: number): Ranked[];
export function topK<const L>(tensor: Tensor, k: number, labels: readonly L[]): (Ranked & { readonly label: L })[];
export function topK(tensor: Tensor, k: number, labels?: readonly unknown[]): Ranked[] {
  const { shape } = tensor;
  if (shape.length !== 1) throw new SconceError("tensor_invalid", `topK is for a vector, not for shape [${shape}]`);
  const numbers = numbersOf(tensor);
  if (labels !== undefined && labels.length !== numbers.length) {
    throw new SconceError("tensor_invalid", `topK: there are ${labels.length} labels for ${numbers.length} elements`);
  }
  const order = Array.from({ length: numbers.length }, (_, i) => i);
  order.sort((a, b) => (isBefore(numbers[a], numbers[b]) ? -1 : isBefore(numbers[b], numbers[a]) ? 1 : a - b));
  return order.slice(0, Math.max(0, k)).map((index) => {
    const ranked = { index, score: numbers[index] ?? Number.NaN };
    return labels === undefined ? ranked : { label: labels[index], ...ranked };
  });
}

/** Softmax over the last dimension. The result is float64 for a float64 tensor, otherwise float32. */
export function softmax(tensor: Tensor<"float64">): ModelTensor<"float64">;
export function softmax(tensor: Tensor): ModelTensor<"float32">;
export function softmax(tensor: Tensor): ModelTensor<"float32" | "float64"> {
  const numbers = Float64Array.from(numbersOf(tensor));
  const width = tensor.shape.at(-1) ?? 1;
  for (let from = 0; from < numbers.length; from += width) {
    const row = numbers.subarray(from, from + width);
    const largest = row.reduce((a, b) => Math.max(a, b), -Infinity);
    let sum = 0;
    for (let i = 0; i < row.length; i++) sum += row[i] = Math.exp((row[i] ?? 0) - largest);
    for (let i = 0; i < row.length; i++) row[i] = (row[i] ?? 0) / sum;
  }
  if (tensor.dtype === "float64") return new ModelTensor("float64", tensor.shape, numbers);
  return new ModelTensor("float32", tensor.shape, Float32Array.from(numbers));
}

function isBefore(a = Number.NaN, b = Number.NaN): boolean {
  return a > b || (Number.isNaN(a) && !Number.isNaN(b));
}
