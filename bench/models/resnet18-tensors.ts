/** ResNet-18 on pixels. */
import { defineModel, float32, ndarray, uint8, z } from "sconce";

const SIZE = 224;

export default defineModel({
  name: "resnet18-tensors",
  input: z.object({ image: ndarray(uint8(3, SIZE, SIZE)) }),
  output: z.object({ scores: ndarray(float32(1000)) }),
  tensors: { inputs: { image: uint8(3, SIZE, SIZE) }, outputs: { scores: float32(1000) } },
  weights: "weights.pt",
  batchSize: 16,
  preprocess: ({ image }) => ({ image }),
  postprocess: ({ scores }) => ({ scores }),
});
