/** Names a colour. Everything that sconce needs to know of the model stands here; change it piece by piece into yours. */
import { defineModel, float32, tensor, z } from "sconce";

/** In the order of the weights, see export.py. */
const names = [
  "black",
  "grey",
  "white",
  "red",
  "orange",
  "yellow",
  "green",
  "turquoise",
  "blue",
  "purple",
  "pink",
  "brown",
] as const;

export default defineModel({
  // The repository that `sconce build` puts the model into.
  name: "colours",
  description: "Names a colour.",

  // What clients send and get, as JSON: a zod schema. Images and other files are image() and file().
  input: z.object({ colour: z.string().regex(/^#[0-9a-f]{6}$/i, "must be # and six hex digits, like #ff8800") }),
  output: z.object({ name: z.enum(names), probability: z.number() }),

  // The tensors of one input, without a batch dimension, named like the arguments of the weights' forward.
  tensors: { inputs: { rgb: float32(3) }, outputs: { probabilities: float32(names.length) } },
  weights: "model.pt2",

  // Most inputs, of any number of requests, that go through the model together.
  batchSize: 32,

  // Tried out at build, runs at warm-up, shown in the docs.
  example: { colour: "#ff8800" },

  // One input to its tensors. What is thrown here is told to the client who sent the input, and fails no other.
  preprocess({ colour }) {
    const channels = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16) / 255);
    return { rgb: tensor(Float32Array.from(channels), [3]) };
  },

  // The rows of the output tensors that belong to one input, to its output.
  postprocess({ probabilities }) {
    const probability = Math.max(...probabilities.data);
    return { name: names[probabilities.data.indexOf(probability)] ?? "black", probability };
  },
});
