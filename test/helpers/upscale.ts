/** The example `upscale` with other weights. */
import { copyFile, cp } from "node:fs/promises";
import { join } from "node:path";

const example = join(import.meta.dir, "../../examples/upscale");

/** Copies the example to a new folder, and replaces its weights file. @returns the folder */
export async function withWeights(folder: string, weights: string): Promise<string> {
  await cp(example, folder, { recursive: true });
  await copyFile(weights, join(folder, "upscale.pt2"));
  return folder;
}
