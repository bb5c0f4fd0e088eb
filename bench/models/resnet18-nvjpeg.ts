/** ResNet-18 on images that the JPEG unit of the GPU decodes. */
import { defineModel, float32, image, ndarray, tensor, uint8, z } from "sconce";

const SIZE = 224;

export default defineModel({
  name: "resnet18-nvjpeg",
  input: z.object({ image: image({ nvjpeg: true }) }),
  output: z.object({ scores: ndarray(float32(1000)) }),
  tensors: { inputs: { image: uint8(3, SIZE, SIZE) }, outputs: { scores: float32(1000) } },
  weights: "weights.pt",
  batchSize: 16,
  async preprocess({ image }) {
    const { data } = await image.pixels({ width: SIZE, height: SIZE, layout: "chw" });
    return { image: tensor(data, [3, SIZE, SIZE]) };
  },
  postprocess: ({ scores }) => ({ scores }),
});
