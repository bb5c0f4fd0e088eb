/** Compiles libraries with operators that libtorch lacks, and exports weights that call them. */
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { made } from "./made.ts";

/**
 * Folder with `operators.so`, `triple.pt`, `fault.pt`, and `broken.so`, which is no library. The first call compiles
 * for a minute.
 */
export function compiledOperators(): Promise<string> {
  const here = join(import.meta.dir, "operators");
  const sources = ["fault.cc", "triple.cc"].map((name) => join(here, name));
  return made({ name: "operators", script: join(here, "make.py"), sources });
}

/**
 * Writes the folder of a model `triple`, whose weights call an operator. @param operators source text of the model's
 * field `operators`
 */
export async function writeTriple(folder: string, operators: string): Promise<void> {
  await cp(await compiledOperators(), folder, { recursive: true });
  await Bun.write(join(folder, "model.ts"), model(operators));
}

const model = (operators: string) => `import { defineModel, float32, tensor, z } from "sconce";
export default defineModel({
  name: "triple",
  input: z.object({ x: z.number() }),
  output: z.object({ y: z.number() }),
  tensors: { inputs: { x: float32() }, outputs: { y: float32() } },
  weights: "triple.pt",
  operators: ${operators},
  example: { x: 2 },
  preprocess: ({ x }) => ({ x: tensor(Float32Array.of(x), []) }),
  postprocess: ({ y }) => ({ y: y.data[0] ?? 0 }),
});
`;
