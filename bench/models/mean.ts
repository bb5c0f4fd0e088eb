/** Means of a picture's channels. The network costs nothing, so the case measures the work before the forward pass. */
import { defineModel, float32, image, ndarray, tensor, uint8, z } from "sconce";

const SIZE = 224;

export default defineModel({
  name: "mean",
  input: z.object({ image: image() }),
  output: z.object({ means: ndarray(float32(3)) }),
  tensors: { inputs: { image: uint8(3, SIZE, SIZE) }, outputs: { means: float32(3) } },
  weights: "weights.pt",
  batchSize: 16,
  async preprocess({ image }) {
    const { data } = await image.pixels({ width: SIZE, height: SIZE, layout: "chw" });
    return { image: tensor(data, [3, SIZE, SIZE]) };
  },
  postprocess: ({ means }) => ({ means }),
});
