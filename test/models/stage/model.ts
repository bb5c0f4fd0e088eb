/** Computes 2 x + 1. Its demo logs, waits and fails as the input says. */
import { defineModel, float32, int64, tensor, z } from "sconce";

export default defineModel({
  name: "stage",
  input: z.object({
    x: z.number(),
    /** Text that `preprocess` and the demo write to `console`. */
    say: z.string().default("nothing"),
    /** A URL that the demo fetches before it continues. */
    before: z.url().optional(),
    /** `item` fails in `preprocess`; `demo`, `count` and `output` fail in the demo; `late` awaits `predict` late. */
    fail: z.enum(["demo", "item", "count", "output", "late"]).optional(),
    /** Number of characters that the demo logs. */
    flood: z.int().default(0),
  }),
  output: z.object({ y: z.number() }),
  tensors: { inputs: { x: float32(), steps: int64() }, outputs: { y: float32(), together: int64() } },
  weights: "stage.pt",
  batchSize: 4,
  example: { x: 1.5 },
  preprocess({ x, say, fail }) {
    if (fail === "item") throw new Error("no such x");
    console.log(`preparing ${say}`);
    return { x: tensor(Float32Array.of(x), []), steps: tensor(BigInt64Array.of(0n), []) };
  },
  postprocess: ({ y }) => ({ y: y.data[0] ?? 0 }),
  demo: {
    output: z.object({ half: z.number() }),
    async predict(inputs, { predict, log }) {
      // "late": the demo calls `predict` first and awaits it last, so that a test can cancel the demo in between.
      const early = inputs[0]?.fail === "late" ? predict(inputs) : undefined;
      for (const { x, say, before, fail, flood } of inputs) {
        log("begin", x);
        console.log(`said ${say}`);
        if (before !== undefined) await (await fetch(before)).arrayBuffer();
        console.error("%s again", say);
        for (let left = flood; left > 0; left -= 65_536) log("x".repeat(Math.min(left, 65_536)));
        if (fail === "demo") throw new Error("the demo broke");
      }
      const outputs = await (early ?? predict(inputs));
      const demoOutputs = outputs.map(({ y }, i) => ({ half: inputs[i]?.fail === "output" ? Number.NaN : y / 2 }));
      return { outputs, demoOutputs: inputs[0]?.fail === "count" ? [] : demoOutputs };
    },
  },
});
