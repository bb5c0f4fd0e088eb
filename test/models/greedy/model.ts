/**
 * A model with large inputs of every kind (pictures, files, lists of numbers, padded tensors). Its outputs are large
 * or late if the input says so.
 */
import { defineModel, file, float32, image, int64, pad, tensor, uint8, z } from "sconce";

const side = 8;

export default defineModel({
  name: "greedy",
  input: z.object({
    pictures: z.array(image()).default([]),
    files: z.array(file()).default([]),
    numbers: z.array(z.number()).default([]),
    rows: z.int().default(1),
    columns: z.int().default(1),
    /** Number of rows of the mask, which then has no columns; 0 for a mask of one element. */
    layers: z.int().default(0),
    /** How long `postprocess` takes. */
    laterMs: z.int().default(0),
    /** Number of elements in the output that do not match its declaration. */
    faults: z.int().default(0),
    /** Number of characters of the output's text. */
    length: z.int().default(0),
  }),
  output: z.object({ files: z.int(), values: z.array(z.number()), text: z.string() }),
  tensors: {
    inputs: {
      matrix: float32(pad("rows", 0), pad("columns", 0)),
      vector: float32(pad("columns", 0)),
      mask: uint8(pad("layers", 0), pad("bytes", 0)),
    },
    outputs: { product: float32(pad("rows", 0)), set: int64(pad("layers", 0)) },
  },
  weights: "shapes.pt",
  batchSize: 16,
  example: {},
  preprocess({ pictures, rows, columns, layers }) {
    const tensors = {
      matrix: tensor(new Float32Array(rows * columns), [rows, columns]),
      vector: tensor(new Float32Array(columns), [columns]),
      mask: tensor(new Uint8Array(layers > 0 ? 0 : 1), layers > 0 ? [layers, 0] : [1, 1]),
    };
    if (pictures.length === 0) return tensors;
    return Promise.all(pictures.map((picture) => picture.pixels({ width: side, height: side }))).then(() => tensors);
  },
  postprocess({ product }, { input: { files, laterMs, faults, length } }) {
    const values = faults > 0 ? Array<number>(faults).fill(Number.NaN) : [product.data[0] ?? 0];
    const output = { files: files.reduce((sum, { bytes }) => sum + bytes.length, 0), values, text: "x".repeat(length) };
    return laterMs > 0 ? new Promise((resolve) => setTimeout(resolve, laterMs, output)) : output;
  },
});
