/** The cases of the short form of `npm run fidelity`, stored in `.sconce/fixtures`. */
import { join } from "node:path";
import { made } from "./made.ts";

const folder = join(import.meta.dir, "../fidelity");
const sources = ["cases.py", "generator.py", "programs.py"].map((file) => join(folder, file));

export function fidelityCases(): Promise<string> {
  return made({ name: "fidelity", script: join(folder, "short.py"), sources });
}
