/** Source text of a model for tests: an input of every dtype and kind, and each of them as an output. */
export const tensorModel = `import * as sconce from "sconce";
import { defineModel, file, float32, int64, ndarray, tensor, z } from "sconce";

const fields = {
  fp32: ndarray(float32("n", 2)),
  fp64: ndarray(sconce.float64(2)),
  fp16: ndarray(sconce.float16(2)),
  bf16: ndarray(sconce.bfloat16(2)),
  int8: ndarray(sconce.int8(2)),
  int16: ndarray(sconce.int16(2)),
  int32: ndarray(sconce.int32(2)),
  int64: ndarray(int64(2)),
  uint8: ndarray(sconce.uint8(2)),
  bool: ndarray(sconce.bool(2)),
  number: z.number(),
  whole: z.int(),
  flag: z.boolean(),
  list: z.array(z.array(z.number()).length(2)).length(2),
  text: z.string(),
  file: file(),
  any: z.record(z.string(), z.number()),
};

export default defineModel({
  name: "lab/tensors",
  input: z.object({ ...fields, note: z.string().optional() }),
  output: z.object({ ...fields, note: z.string().optional() }),
  tensors: { inputs: { x: float32(), steps: int64() }, outputs: { y: float32(), together: int64() } },
  weights: "lab.pt",
  batchSize: 4,
  example: {
    fp32: [[1, 2]], fp64: [1, 2], fp16: [1, 2], bf16: [1, 2], int8: [1, 2], int16: [1, 2], int32: [1, 2],
    int64: [1, 2], uint8: [1, 2], bool: [true, false], number: 1, whole: 1, flag: true, list: [[1, 2], [3, 4]],
    text: "a", file: "data:text/plain,a", any: { a: 1 },
  },
  preprocess: ({ number }) => ({ x: tensor(Float32Array.of(number), []), steps: tensor(BigInt64Array.of(0n), []) }),
  postprocess: (_, { input }) => input,
});
`;

/** Source text of a model for tests that returns its array. */
export const arrayModel = `import { defineModel, float32, int64, ndarray, tensor, z } from "sconce";

const field = ndarray(float32(16));

export default defineModel({
  name: "arrays",
  input: z.object({ x: field }),
  output: z.object({ x: field }),
  tensors: { inputs: { x: float32(), steps: int64() }, outputs: { y: float32(), together: int64() } },
  weights: "lab.pt",
  batchSize: 8,
  example: { x: Array(16).fill(0.5) },
  preprocess: ({ x }) => ({ x: tensor(x.data.slice(0, 1), []), steps: tensor(BigInt64Array.of(0n), []) }),
  postprocess: (_, { input: { x } }) => ({ x }),
});
`;
