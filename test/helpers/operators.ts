/** Compiles libraries with operators that libtorch lacks, and exports weights that call them. */
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
