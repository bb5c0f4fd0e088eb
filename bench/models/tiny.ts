/** A network of 4-16-3 units: the forward pass takes microseconds, so the case measures the server. */
import { defineModel, float32, tensor, z } from "sconce";

export default defineModel({
  name: "tiny",
  input: z.object({ x: z.array(z.number()).length(4) }),
  output: z.object({ y: z.array(z.number()).length(3) }),
  tensors: { inputs: { x: float32(4) }, outputs: { y: float32(3) } },
  weights: "weights.pt",
  batchSize: 64,
  example: { x: [0.1, 0.2, 0.3, 0.4] },
  preprocess: ({ x }) => ({ x: tensor(new Float32Array(x), [4]) }),
  postprocess: ({ y }) => ({ y: [...y.data] }),
});
