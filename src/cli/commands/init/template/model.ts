/** Names a colour. This file declares the whole model. Change it step by step into your model. */
import { defineModel, float32, tensor, topK, z } from "sconce";

/** The classes, in the order of COLOURS in export.py. */
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
  // Name of the model in the store.
  name: "colours",
  description: "Names a colour.",

  // Schemas of the JSON in requests and responses. For images and other files, use image() and file().
  input: z.object({ colour: z.string().regex(/^#[0-9a-f]{6}$/i, "must be # and six hex digits, like #ff8800") }),
  output: z.object({ name: z.enum(names), probability: z.number() }),

  // Tensors of one input, without the batch dimension. The names are the arguments of forward.
  tensors: { inputs: { rgb: float32(3) }, outputs: { probabilities: float32(names.length) } },
  weights: "model.pt2",

  // Largest batch. A batch may contain inputs of several requests.
  batchSize: 32,

  // Runs at build and at warm-up, and appears in the docs.
  example: { colour: "#ff8800" },

  // Turns an input into tensors. An error fails only this input. Clients get the message of an InputError.
  preprocess({ colour }) {
    const channels = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16) / 255);
    return { rgb: tensor.float32(channels) };
  },

  // Turns the output tensors of one input into an output.
  postprocess({ probabilities }) {
    const [best = { label: names[0], score: 0 }] = topK(probabilities, 1, names);
    return { name: best.label, probability: best.score };
  },
});
