/** The mean colour of an image, as numbers and as an image of one pixel. */
import { defineModel, float32, Image, image, tensor, z } from "sconce";

const side = 4;

export default defineModel({
  name: "picture",
  input: z.object({ image: image({ maxBytes: 100_000 }) }),
  output: z.object({ mean: z.array(z.number()).length(3), swatch: image() }),
  tensors: { inputs: { pixels: float32(3, side, side) }, outputs: { mean: float32(3) } },
  weights: "picture.pt",
  batchSize: 4,
  example: { image: "white.png" },
  async preprocess({ image }) {
    const { data } = await image.pixels({ width: side, height: side, layout: "chw" });
    return { pixels: tensor(Float32Array.from(data), [3, side, side]) };
  },
  async postprocess({ mean }) {
    const data = Uint8Array.from(mean.data, Math.round);
    return { mean: [...mean.data], swatch: await Image.fromPixels({ data, width: 1, height: 1, channels: 3 }) };
  },
});
