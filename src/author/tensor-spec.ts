/** Schema of a tensor's declaration, such as `float32(3, "height", "width")`. */
import { arrayTypes, type DType } from "./tensor.ts";
import * as z from "./z.ts";

const dtypes = Object.keys(arrayTypes) as DType[];
const paddedDimension = z.strictObject({ name: z.string().min(1), value: z.number() });
const dimension = z.custom(
  (dim) =>
    typeof dim === "number"
      ? Number.isSafeInteger(dim) && dim >= 1
      : dim !== "" && (typeof dim === "string" || paddedDimension.safeParse(dim).success),
  'must be a whole size of at least 1, a name for a free size such as "height", or pad("tokens", 0)',
);

export const tensorSpec = z.strictObject(
  { dtype: z.literal(dtypes), dims: z.array(dimension) },
  "must be declared with a dtype and sizes, e.g. float32(64)",
);
