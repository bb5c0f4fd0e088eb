/** A model without cost. Each input sets how many numbers its output has: up to megabytes. */
import { defineModel, float32, tensor, z } from "sconce";

export default defineModel({
  name: "large",
  input: z.object({ x: z.array(z.number()).length(4), count: z.int().default(3) }),
  output: z.object({ y: z.array(z.number()) }),
  tensors: { inputs: { x: float32(4) }, outputs: { y: float32(3) } },
  weights: "weights.pt",
  batchSize: 64,
  example: { x: [0.1, 0.2, 0.3, 0.4] },
  preprocess: ({ x }) => ({ x: tensor(new Float32Array(x), [4]) }),
  postprocess: ({ y }, { input }) => ({
    y: Array.from({ length: input.count }, (_, i) => Math.fround((y.data[i % 3] ?? 0) + (i - (i % 3)) / 7)),
  }),
});
