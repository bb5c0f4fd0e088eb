/**
 * A model without cost. Each input sets how many pixels its output picture has. The picture is noise, which PNG
 * cannot compress.
 */
import { defineModel, float32, Image, image, tensor, z } from "sconce";

const MOST = 2000;
const noise = new Uint8Array(3 * MOST * MOST);
for (let from = 0; from < noise.length; from += 65_536) crypto.getRandomValues(noise.subarray(from, from + 65_536));

export default defineModel({
  name: "photo",
  input: z.object({ x: z.array(z.number()).length(4), side: z.int().max(MOST).default(8) }),
  output: z.object({ picture: image() }),
  tensors: { inputs: { x: float32(4) }, outputs: { y: float32(3) } },
  weights: "weights.pt",
  batchSize: 64,
  example: { x: [0.1, 0.2, 0.3, 0.4] },
  preprocess: ({ x }) => ({ x: tensor(new Float32Array(x), [4]) }),
  postprocess: async (_, { input: { side } }) => ({
    picture: await Image.fromPixels({
      data: noise.subarray(0, 3 * side * side),
      width: side,
      height: side,
      channels: 3,
    }),
  }),
});
