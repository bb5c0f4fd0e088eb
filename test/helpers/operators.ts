/** A library with an operator that libtorch does not have, and weights that call it. */
import { join } from "node:path";
import { made } from "./made.ts";

/** @returns a folder with `operators.so`, `triple.pt`, and `broken.so`, which is no library; compiling takes half a minute the first time */
export function compiledOperators(): Promise<string> {
  const here = join(import.meta.dir, "operators");
  return made({ name: "operators", script: join(here, "make.py"), sources: [join(here, "triple.cc")] });
}
