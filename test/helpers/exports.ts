/** Weights exported by the Python scripts of this folder; each script has a folder in `.sconce/fixtures`. */
import { join } from "node:path";
import { made } from "./made.ts";

/** Weights with export mistakes. */
export const mistakes = () => exported("mistakes");

/** Programs with the exact outputs of PyTorch. */
export const exactPrograms = () => exported("exact");

/** Networks whose layers libtorch may fold wrongly when it freezes them. */
export const frozenNetworks = () => exported("frozen");

/** Modules with operators whose arguments libtorch does not check. */
export const uncheckedModules = () => exported("unchecked");

function exported(name: string): Promise<string> {
  return made({ name, script: join(import.meta.dir, `${name}.py`) });
}
