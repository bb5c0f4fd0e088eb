/** ResNet-18 on images by URL: a file to fetch and a JPEG to decode for every forward pass. */
import { defineModel, float32, image, tensor, z } from "sconce";

const SIZE = 224;
/** Of ImageNet, for 0 to 1: red, green, blue. */
const mean = [0.485, 0.456, 0.406];
const deviation = [0.229, 0.224, 0.225];

export default defineModel({
  name: "resnet18",
  input: z.object({ image: image() }),
  output: z.object({ scores: z.array(z.number()).length(1000) }),
  tensors: { inputs: { image: float32(3, SIZE, SIZE) }, outputs: { scores: float32(1000) } },
  weights: "weights.pt",
  batchSize: 16,
  async preprocess({ image }) {
    const { data } = await image.pixels({ width: SIZE, height: SIZE, layout: "chw" });
    const plane = SIZE * SIZE;
    const values = new Float32Array(data.length);
    for (let channel = 0; channel < 3; channel++) {
      const scale = 1 / (255 * (deviation[channel] ?? 1));
      const shift = (mean[channel] ?? 0) / (deviation[channel] ?? 1);
      const end = (channel + 1) * plane;
      for (let i = channel * plane; i < end; i++) values[i] = (data[i] ?? 0) * scale - shift;
    }
    return { image: tensor(values, [3, SIZE, SIZE]) };
  },
  postprocess: ({ scores }) => ({ scores: [...scores.data] }),
});
