/** Converts between declared tensors and the addon's arrays. */
import { type DType, ModelTensor, type TensorSpecs } from "../../author/tensor.ts";
import { type Addon, type NativeSpec, type NativeTensors, otherVersion } from "./addon.ts";

export function nativeSpecs({ dtypes }: Pick<Addon, "dtypes">, specs: TensorSpecs): NativeSpec[] {
  return Object.entries(specs).map(([name, { dtype, dims }]) => ({
    name,
    dtype: dtypes.indexOf(dtype),
    dims: [...dims],
  }));
}

/**
 * Makes tensors from the addon's arrays. Dtypes and fixed shapes come from the declaration, because the addon does not
 * return them.
 */
export class TensorPlan {
  readonly #plans: readonly { readonly dtype: DType; readonly sizes: readonly number[] | undefined }[];

  constructor(specs: TensorSpecs) {
    this.#plans = Object.values(specs).map(({ dtype, dims }) => {
      const sizes = dims.filter((dim) => typeof dim === "number");
      return { dtype, sizes: sizes.length === dims.length ? sizes : undefined };
    });
  }

  tensors(rows: number, given: NativeTensors): ModelTensor[] {
    let next = this.#plans.length;
    return this.#plans.map(({ dtype, sizes }, i) => {
      const data = given[i];
      const shape = sizes === undefined ? given[next++] : [rows, ...sizes];
      if (data === undefined || Array.isArray(data) || !Array.isArray(shape)) throw otherVersion();
      return new ModelTensor(dtype, shape, data);
    });
  }
}
