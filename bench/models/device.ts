/** 20 ms for each batch, whatever else the machine does, as on an accelerator: what the server and its load take of the processor is not the model's. */
import { defineModel, float32, tensor, z } from "sconce";

export default defineModel({
  name: "device",
  input: z.object({ x: z.number() }),
  output: z.object({ y: z.number() }),
  tensors: { inputs: { x: float32() }, outputs: { y: float32() } },
  weights: "weights.pt",
  batchSize: 4,
  example: { x: 1 },
  preprocess: ({ x }) => ({ x: tensor(Float32Array.of(x), []) }),
  predict: async ({ x }) => {
    await Bun.sleep(20);
    return { y: x };
  },
  postprocess: ({ y }) => ({ y: y.data[0] ?? 0 }),
});
