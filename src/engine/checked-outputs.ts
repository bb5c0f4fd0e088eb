/** Checks the tensors that a model's own `predict` or `step` returns or yields. */
import {
  arrayTypes,
  countOf,
  type Dim,
  describeTensor,
  isSize,
  isTensor,
  type Tensor,
  type TensorSpec,
  type TensorSpecs,
} from "../author/tensor.ts";
import { copied } from "../author/tensor-memory.ts";
import { SconceError } from "../base/errors.ts";
import { NativeTensor } from "./native/native-tensor.ts";

interface Given {
  /** Name of the model's function, for error messages. */
  readonly hook: string;
  /** Count of stacked items; undefined for the tensors of one item, which have no batch dimension. */
  readonly rows: number | undefined;
  /** Whether the model's function has returned. Its temporary tensors on the device are then taken without a copy. */
  readonly isLast: boolean;
}

/**
 * Checks the given tensors, and returns them in the declared order. The result is in separate memory, because the
 * model's code may reuse its buffers.
 * @throws SconceError `run_failed` with the name, the declared and the given tensor
 */
export async function checkedOutputs(
  specs: TensorSpecs,
  given: unknown,
  { hook, rows, isLast }: Given,
): Promise<readonly Tensor[]> {
  const unfit = (what: string) => new SconceError("run_failed", `${hook} gave ${what}`);
  if (typeof given !== "object" || given === null) throw unfit("nothing; return { name: tensor(…) }");
  for (const name of Object.keys(given)) {
    if (!Object.hasOwn(specs, name)) {
      throw unfit(`a tensor "${name}", which is not declared (declared: ${Object.keys(specs).join(", ")})`);
    }
  }
  const byName = new Map<string, unknown>(Object.entries(given));
  const outputs = Object.entries(specs).map(([name, spec]) => {
    const output = byName.get(name);
    if (output === undefined) throw unfit(`no tensor "${name}"`);
    if (output instanceof Promise) throw unfit(`a promise as "${name}": await the call that makes it`);
    if (!isOutput(output)) throw unfit(`${otherThanTensor(output)} as "${name}"; ${fixOf(output)}`);
    const dims = rows === undefined ? spec.dims : [rows, ...spec.dims];
    if (!fits(spec, dims, output)) {
      const { dtype, shape } = output;
      const declared = rows === undefined ? "declared" : `declared for ${rows} items`;
      throw unfit(
        `"${name}" as ${describeTensor(dtype, shape)}${elementsOf(output)}; ${declared}: ${describeTensor(spec.dtype, dims)}`,
      );
    }
    return output;
  });
  const isOnce = new Set(outputs).size === outputs.length;
  return Promise.all(outputs.map((output) => owned(output, isLast && isOnce)));
}

async function owned(output: Tensor, mayTake: boolean): Promise<Tensor> {
  if (output instanceof NativeTensor) return mayTake && output.isTemporary ? output.take() : output.copy();
  return copied(output);
}

/** Whether a value is a tensor. Reads no elements of a session's tensor, which would leave the device. */
const isOutput = (value: unknown): value is Tensor => value instanceof NativeTensor || isTensor(value);

/** Describes a value that is not a tensor, such as a dict that a session has returned. */
function otherThanTensor(value: unknown): string {
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value !== "object" || value === null) return `${value}`;
  return `an object with ${
    Object.keys(value)
      .map((key) => `"${key}"`)
      .join(", ") || "no fields"
  }`;
}

function fixOf(value: unknown): string {
  const found =
    typeof value === "object" && value !== null ? Object.entries(value).find(([, each]) => isOutput(each)) : undefined;
  return found === undefined ? "make a tensor with tensor(data, shape)" : `return a tensor of it, as its "${found[0]}"`;
}

function fits({ dtype }: TensorSpec, dims: readonly Dim[], output: Tensor): boolean {
  const { shape } = output;
  return (
    output.dtype === dtype &&
    shape.length === dims.length &&
    shape.every(isSize) &&
    dims.every((dim, i) => typeof dim !== "number" || dim === shape[i]) &&
    (output instanceof NativeTensor ||
      (output.data instanceof arrayTypes[dtype] && countOf(shape) === output.data.length))
  );
}

function elementsOf(output: Tensor): string {
  if (output instanceof NativeTensor) return "";
  return ` with ${output.data.length} elements in a ${output.data.constructor.name}`;
}
