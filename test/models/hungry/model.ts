/** Computes 2 x. A batch of more than two items needs more memory than any machine has. */
import { defineModel, float32, tensor, z } from "sconce";

export default defineModel({
  name: "hungry",
  input: z.object({ x: z.number() }),
  output: z.object({ y: z.number() }),
  tensors: { inputs: { x: float32() }, outputs: { y: float32() } },
  weights: "hungry.pt",
  batchSize: 16,
  example: { x: 1 },
  preprocess: ({ x }) => ({ x: tensor(Float32Array.of(x), []) }),
  postprocess: ({ y }) => ({ y: y.data[0] ?? 0 }),
});
