/**
 * A network of 784-2048-2048-10 units: the forward pass is long enough to keep the device busy. Inputs are 784 numbers
 * in JSON.
 */
import { defineModel, float32, ndarray, z } from "sconce";

export default defineModel({
  name: "mlp",
  input: z.object({ x: ndarray(float32(784)) }),
  output: z.object({ y: z.array(z.number()).length(10) }),
  tensors: { inputs: { x: float32(784) }, outputs: { y: float32(10) } },
  weights: "weights.pt",
  batchSize: 64,
  // The case `large-body` sends 11,600 inputs in one request.
  maxInputs: 20_000,
  example: { x: Array.from({ length: 784 }, (_, i) => i / 784) },
  preprocess: ({ x }) => ({ x }),
  postprocess: ({ y }) => ({ y: [...y.data] }),
});
