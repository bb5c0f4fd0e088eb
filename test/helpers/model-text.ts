/** Writes model folders for tests. A test changes a field to make a mistake. */
import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import type { TempDir } from "./fixture.ts";
import { modelFolder } from "./server.ts";

/** Valid fields of a small model, as source text. The model has the weights of `test/models/lab`. */
const right = {
  name: '"small"',
  input: "z.object({ x: z.number() })",
  output: "z.object({ y: z.number() })",
  tensors: "{ inputs: { x: float32(), steps: int64() }, outputs: { y: float32(), together: int64() } }",
  weights: '"lab.pt"',
  example: "{ x: 1 }",
  preprocess: "({ x }) => ({ x: tensor(Float32Array.of(x), []), steps: tensor(BigInt64Array.of(0n), []) })",
  postprocess: "({ y }) => ({ y: y.data[0] })",
  // Larger batches would change the output `together`, which is the number of items in the batch.
  batchSize: "1",
} as const;

/** The text of a model.ts in which `change` replaces fields. The value undefined removes a field. */
export function modelText(change: Readonly<Record<string, string | undefined>> = {}): string {
  const fields = Object.entries({ ...right, ...change }).filter(([, value]) => value !== undefined);
  const lines = fields.map(([name, value]) => `  ${name}: ${value},`);
  return `import { defineModel, float32, int32, int64, image, pad, tensor, z } from "sconce";
import { z as zod } from "zod";
export default defineModel({
${lines.join("\n")}
});
`;
}

/**
 * Writes a model folder: this model.ts and the weights of `test/models/lab`. @param name subfolder of `dir`; by
 * default `dir` itself
 */
export async function writeModel(dir: TempDir, text: string, name = "."): Promise<string> {
  await Bun.write(dir.join(name, "model.ts"), text);
  await copyFile(join(modelFolder("lab"), "lab.pt"), dir.join(name, "lab.pt"));
  return dir.join(name);
}
