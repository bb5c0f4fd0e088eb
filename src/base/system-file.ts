/** Reads files of /proc and /sys. */
import { readFileSync } from "node:fs";

/** The content of the file; empty if it cannot be read. */
export function systemText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
