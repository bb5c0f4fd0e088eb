/** Exported programs, of which nothing is compiled. */
import { join } from "node:path";
import { made } from "./made.ts";

/** @returns the folder that they are in */
export function exportedPrograms(): Promise<string> {
  const sources = [join(import.meta.dir, "weights.py")];
  return made({ name: "programs", script: join(import.meta.dir, "programs.py"), sources });
}
