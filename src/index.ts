/** What model authors import. */
export { SconceError } from "./errors.ts";
export { defineModel, type Model, type ModelDeclaration, type SetupContext } from "./model/define.ts";
export { file, image } from "./model/fields.ts";
export { ModelFile } from "./model/file.ts";
export { Image } from "./model/media.ts";
export { ndarray } from "./model/ndarray.ts";
export type { CallArgument, CallResult, ModelSession, Sessions } from "./model/session.ts";
export {
  bfloat16,
  bool,
  type DType,
  float16,
  float32,
  float64,
  int8,
  int16,
  int32,
  int64,
  pad,
  type Tensor,
  tensor,
  uint8,
} from "./model/tensor.ts";
export * as z from "./model/z.ts";
