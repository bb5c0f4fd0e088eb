/**
 * A model with a field of each kind that looks different on the page. Its outputs repeat inputs, and add other kinds.
 */
import { audio, defineModel, float32, Image, image, int64, ndarray, tensor, z } from "sconce";

export default defineModel({
  name: "kinds",
  description: "Has a field of each kind.",
  input: z.object({
    said: z.string().meta({ title: "What it says", description: "Is said again." }),
    size: z
      .enum(["s", "l"])
      .default("l")
      .meta({ enumNames: ["Small", "Large"] }),
    secret: z.int().default(3).meta({ hidden: true }),
    /** A URL that the model fetches before it answers, so that a test can delay it. */
    before: z.url().optional(),
    matrix: ndarray(float32(2, 3)).optional(),
    picture: image().optional(),
    sound: audio().optional(),
  }),
  output: z.object({
    said: z.string().meta({ title: "It said" }),
    size: z.string(),
    secret: z.int().meta({ hidden: true }),
    matrix: z.array(z.number()),
    width: z.int(),
    heard: audio().optional(),
    wave: z.array(z.number()),
    tree: z.array(z.unknown()),
    scenes: z.object({ same: image(), wide: image(), mask: image() }),
    swatches: z.array(image()),
    found: z.array(z.object({ name: z.string(), crop: image() })),
  }),
  tensors: { inputs: { x: float32(), steps: int64() }, outputs: { y: float32(), together: int64() } },
  weights: "lab.pt",
  example: { said: "hello" },
  examples: [{ said: "good evening", size: "s" }],
  async preprocess({ before }) {
    if (before !== undefined) await (await fetch(before)).arrayBuffer();
    return { x: tensor(Float32Array.of(1), []), steps: tensor(BigInt64Array.of(0n), []) };
  },
  async postprocess(_, { input: { said, size, secret, matrix, picture, sound } }) {
    const pixels = (width: number, value: number) =>
      Image.fromPixels({ data: new Uint8Array(3 * width).fill(value), width, height: 1, channels: 3 });
    const [same, wide, mask] = await Promise.all([pixels(1, 255), pixels(2, 255), pixels(1, 5)]);
    return {
      said,
      size,
      secret,
      matrix: [...(matrix?.data ?? [])],
      width: (await picture?.size())?.width ?? 0,
      ...(sound && { heard: sound }),
      wave: Array.from({ length: 100 }, (_, i) => Math.sin(i / 10)),
      tree: [{ branches: [["leaf"]] }],
      scenes: { same, wide, mask },
      swatches: [same, same],
      found: [{ name: "a lamp", crop: wide }],
    };
  },
});
