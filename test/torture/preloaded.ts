/** Libraries in C that a server loads before the libraries of the system. */
import { join } from "node:path";

const compiler = Bun.which("gcc") ?? Bun.which("cc");

/** Why libraries cannot be compiled here. */
export const lacking = compiler === null ? "there is no C compiler" : undefined;

/** Compiles a file of this folder. @returns the path of the library, in `folder` */
export function preloaded(name: string, folder: string): string {
  const [source, library] = [join(import.meta.dir, `${name}.c`), join(folder, `${name}.so`)];
  const words = ["-O1", "-shared", "-fPIC", source, "-o", library, "-ldl", "-pthread"];
  const { success, stderr } = Bun.spawnSync([compiler ?? "", ...words]);
  if (!success) throw new Error(`${source} cannot be compiled: ${stderr}`);
  return library;
}
