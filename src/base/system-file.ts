/** What the system tells in files: those of /proc and /sys. */
import { readFileSync } from "node:fs";

/** Empty where there is no such file. */
export function systemText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
