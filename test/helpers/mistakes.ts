/** Weights with mistakes of an export in them. */
import { join } from "node:path";
import { made } from "./made.ts";

/** @returns the folder of the files that `mistakes.py` saves */
export function mistakes(): Promise<string> {
  return made({ name: "mistakes", script: join(import.meta.dir, "mistakes.py") });
}
