/** 2 x + 1, and everything that can go right, slowly or wrong on the way there, as the input asks for. */
import { defineModel, float32, int64, tensor, z } from "sconce";

export default defineModel({
  name: "lab",
  description: "Doubles a number and adds one.",
  input: z.object({
    x: z.number(),
    /** Matrix products of the forward pass; less than 0 makes it throw. */
    steps: z.int().default(0),
    /** What throws, or gives an output that is not the declared one. */
    fail: z.enum(["preprocess", "postprocess", "output"]).optional(),
    /** URLs that are read before and after the forward pass: who answers them decides how long that takes. */
    before: z.url().optional(),
    after: z.url().optional(),
    note: z.object({ text: z.string(), marks: z.array(z.object({ at: z.int() })).optional() }).optional(),
  }),
  /** `together`: how many items were in the batch. */
  output: z.object({ y: z.number(), together: z.int() }),
  tensors: { inputs: { x: float32(), steps: int64() }, outputs: { y: float32(), together: int64() } },
  weights: "lab.pt",
  batchSize: 4,
  example: { x: 1.5 },
  preprocess({ x, steps, fail, before }) {
    if (fail === "preprocess") throw new Error("no such x");
    const tensors = { x: tensor(Float32Array.of(x), []), steps: tensor(BigInt64Array.of(BigInt(steps)), []) };
    return before === undefined ? tensors : answered(before).then(() => tensors);
  },
  postprocess({ y, together }, { input: { fail, after } }) {
    if (fail === "postprocess") throw new Error("no such y");
    const output = { y: fail === "output" ? Number.NaN : (y.data[0] ?? 0), together: Number(together.data[0]) };
    return after === undefined ? output : answered(after).then(() => output);
  },
});

async function answered(url: string): Promise<void> {
  await (await fetch(url)).arrayBuffer();
}
