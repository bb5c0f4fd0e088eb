/** Source text of a model for tests: an input field of every kind, and outputs with files. */
export const boxModel = `import { defineModel, file, float32, int64, ModelFile, tensor, z } from "sconce";

const text = (content) => new ModelFile({ bytes: new TextEncoder().encode(content), mediaType: "text/plain" });

export default defineModel({
  name: "box",
  input: z.object({
    number: z.number(),
    whole: z.int().min(0).optional(),
    flag: z.boolean().optional(),
    text: z.string().max(50).optional(),
    maybe: z.number().nullable().optional(),
    remark: z.string().nullable().optional(),
    mode: z.enum(["fast", "slow"]).optional(),
    level: z.union([z.number(), z.literal("auto")]).optional(),
    list: z.array(z.number()).optional(),
    nested: z.object({ at: z.array(z.int()), file: file().optional() }).optional(),
    any: z.unknown().optional(),
    file: file().optional(),
    files: z.array(file()).optional(),
  }),
  output: z.object({ seen: z.record(z.string(), z.unknown()), note: file(), parts: z.array(z.object({ crop: file() })) }),
  tensors: { inputs: { x: float32(), steps: int64() }, outputs: { y: float32(), together: int64() } },
  weights: "lab.pt",
  example: { number: 7, text: "the example" },
  preprocess({ number }) {
    console.log("preprocessing", number);
    return { x: tensor(Float32Array.of(number), []), steps: tensor(BigInt64Array.of(0n), []) };
  },
  postprocess(_, { input }) {
    const replacer = (_, value) => value instanceof ModelFile ? value.mediaType + ": " + new TextDecoder().decode(value.bytes) : value;
    return {
      seen: JSON.parse(JSON.stringify(input, replacer)),
      note: text("the note"),
      parts: [{ crop: text("first") }, { crop: text("second".repeat(100)) }],
    };
  },
  demo: {
    output: z.object({ twice: z.number(), map: file() }),
    async predict(inputs, { predict, log }) {
      log("begun");
      const outputs = await predict(inputs);
      console.warn("predicted", outputs.length);
      return { outputs, demoOutputs: inputs.map(({ number }) => ({ twice: 2 * number, map: text("the map") })) };
    },
  },
});
`;
