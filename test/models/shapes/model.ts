/** Several named inputs and outputs whose sizes differ between items. */
import { defineModel, float32, int64, tensor, uint8, z } from "sconce";

export default defineModel({
  name: "shapes",
  input: z.object({ matrix: z.array(z.array(z.number())), vector: z.array(z.number()), mask: z.array(z.int()) }),
  output: z.object({ product: z.array(z.number()), set: z.int() }),
  tensors: {
    inputs: { matrix: float32("rows", "columns"), vector: float32("columns"), mask: uint8("bytes") },
    outputs: { product: float32("rows"), set: int64() },
  },
  weights: "shapes.pt",
  batchSize: 8,
  example: { matrix: [[1, 2]], vector: [3, 4], mask: [0, 1] },
  preprocess: ({ matrix, vector, mask }) => ({
    matrix: tensor(Float32Array.from(matrix.flat()), [matrix.length, matrix[0]?.length ?? 0]),
    vector: tensor(Float32Array.from(vector), [vector.length]),
    mask: tensor(Uint8Array.from(mask), [mask.length]),
  }),
  postprocess: ({ product, set }) => ({ product: [...product.data], set: Number(set.data[0]) }),
});
