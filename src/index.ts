/** The module `sconce`, for model authors. */

export { Audio, type SampleOptions, type Samples } from "./author/audio/audio.ts";
export type { AudioDecoder, AudioDecoders, DecodedAudio } from "./author/audio/decoder.ts";
export {
  type DemoContext,
  defineModel,
  type Model,
  type ModelDeclaration,
  type SetupContext,
} from "./author/define.ts";
export { audio, file, image } from "./author/fields.ts";
export { ModelFile } from "./author/file.ts";
export type { HookContext, InputContext, PartContext } from "./author/hook-context.ts";
export { InputError, type InputErrorOptions } from "./author/input-error.ts";
export { Image, type NormalizedOptions, type PixelOptions, type Pixels } from "./author/media.ts";
export type { ModelSettings } from "./author/model-settings.ts";
export { ndarray } from "./author/ndarray.ts";
export { argmax, type Ranked, softmax, topK } from "./author/scores.ts";
export type { CallArgument, CallResult, DeviceTensor, ModelSession, Sessions, StepResult } from "./author/session.ts";
export { stack, unstack } from "./author/stack.ts";
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
  type ModelTensor as Tensor,
  pad,
  tensor,
  uint8,
} from "./author/tensor.ts";
export * as z from "./author/z.ts";
