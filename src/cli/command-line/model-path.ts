/** Tells paths from names where a command line or a file may have either for a model. */
import { statSync } from "node:fs";
import { isAbsolute, resolve } from "node:path";

/** Whether a text can only be a path: names of models do not begin with `/`, `./` or `../`. */
export function isPathText(given: string): boolean {
  return isAbsolute(given) || /^\.\.?(?:\/|$)/.test(given);
}

/**
 * The absolute path that a text means. A file of weights also counts without `./`, because its name has an extension.
 * @param folder folder of relative paths
 * @returns undefined for the name of a model
 */
export function pathGiven(given: string, folder = process.cwd()): string | undefined {
  const path = resolve(folder, given);
  const isFile = /[./]/.test(given) && (statSync(path, { throwIfNoEntry: false })?.isFile() ?? false);
  return isPathText(given) || isFile ? path : undefined;
}
