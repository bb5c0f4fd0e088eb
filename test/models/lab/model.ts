/** Computes 2 x + 1. The input can ask for delays and faults. */
import { defineModel, float32, InputError, int64, tensor, z } from "sconce";

export default defineModel({
  name: "lab",
  description: "Doubles a number and adds one.",
  input: z.object({
    x: z.number(),
    /**
     * Number of matrix products in the forward pass, which take time. A negative number makes the module raise an
     * error.
     */
    steps: z.int().default(0),
    /** The hook that throws; or `output`: an output that does not match its declaration; or `input`: an InputError. */
    fail: z.enum(["preprocess", "postprocess", "output", "input"]).optional(),
    /** URL that `preprocess` fetches. Its server decides how long that takes. */
    before: z.url().optional(),
    /** URL that `postprocess` fetches. */
    after: z.url().optional(),
    note: z.object({ text: z.string(), marks: z.array(z.object({ at: z.int() })).optional() }).optional(),
  }),
  /** `together` is the number of items in the batch. */
  output: z.object({ y: z.number(), together: z.int() }),
  tensors: { inputs: { x: float32(), steps: int64() }, outputs: { y: float32(), together: int64() } },
  weights: "lab.pt",
  batchSize: 4,
  example: { x: 1.5 },
  preprocess({ x, steps, fail, before }) {
    if (fail === "preprocess") throw new Error("no such x");
    if (fail === "input") throw new InputError("x is not wanted", { field: "x" });
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
