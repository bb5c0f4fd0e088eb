/** ResNet-18 on pixels that come as they are: its clients have fetched, decoded and scaled the images. */
import { defineModel, float32, ndarray, uint8, z } from "sconce";

export default defineModel({
  name: "resnet18-ready",
  input: z.object({ image: ndarray(uint8(3, 224, 224)) }),
  output: z.object({ scores: ndarray(float32(1000)) }),
  tensors: { inputs: { image: uint8(3, 224, 224) }, outputs: { scores: float32(1000) } },
  weights: "weights.pt",
  batchSize: 16,
  preprocess: ({ image }) => ({ image }),
  postprocess: ({ scores }) => ({ scores }),
});
