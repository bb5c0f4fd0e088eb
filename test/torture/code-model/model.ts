/** Triples a number. Its `predict` ends or blocks its process if an input says so. */
import { defineModel, float32, int64, tensor, z } from "sconce";

const faults = ["exit", "kill", "spin"] as const;

export default defineModel({
  name: "torture-code",
  input: z.object({ x: z.number(), fault: z.enum(faults).optional() }),
  output: z.object({ y: z.number() }),
  tensors: { inputs: { x: float32(), faults: int64() }, outputs: { y: float32() } },
  weights: "fault.pt",
  operators: ["operators.so"],
  batchSize: 16,
  example: { x: 1 },
  preprocess({ x, fault }) {
    const code = fault === undefined ? 0 : 1 + faults.indexOf(fault);
    return { x: tensor(Float32Array.of(x), []), faults: tensor(BigInt64Array.of(BigInt(code)), []) };
  },
  async predict({ x, faults: codes }, { model }) {
    for (const code of codes.data) {
      // The server turns `process.exit` into an error, but does not replace `reallyExit`.
      if (code === 1n) Reflect.get(process, "reallyExit")(9);
      if (code === 2n) process.kill(process.pid, "SIGBUS");
      while (code === 3n);
    }
    const none = tensor(new BigInt64Array(codes.data.length), codes.shape);
    return { y: await model.call("forward", x, none) };
  },
  postprocess: ({ y }) => ({ y: y.data[0] ?? 0 }),
});
