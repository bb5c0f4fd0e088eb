/** Weights that the Python scripts of this folder export, each into a folder of `.sconce/fixtures`. */
import { join } from "node:path";
import { made } from "./made.ts";

/** Weights with mistakes that authors make in the export. */
export const mistakes = () => exported("mistakes");

/** Programs with the outputs that PyTorch gives for their inputs. */
export const exactPrograms = () => exported("exact");

/** Networks whose layers libtorch could fold wrongly when it freezes them. */
export const frozenNetworks = () => exported("frozen");

/** Modules with operators whose arguments libtorch does not check. */
export const uncheckedModules = () => exported("unchecked");

function exported(name: string): Promise<string> {
  return made({ name, script: join(import.meta.dir, `${name}.py`) });
}
