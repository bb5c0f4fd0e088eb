/** The message for a missing file. It suggests a similar name in the folder. */
import { readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { closest } from "../../base/closest.ts";

/** A message such as `there is no digts.pt2; did you mean "digits.pt2"?`. */
export function missingFile(path: string): string {
  const near = closest(basename(path), namesIn(dirname(path)));
  const hint = near === undefined ? "" : `; did you mean "${join(dirname(path), near)}"?`;
  return `there is no ${path}${hint}`;
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
