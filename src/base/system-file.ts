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

/** Fields 3 and later of `/proc/PID/stat`, or of a thread's `stat` (proc(5)). Empty if the file cannot be read. */
export function statFields(path: string): readonly string[] {
  const text = systemText(path);
  // Field 2, the name in parentheses, may itself contain spaces and parentheses.
  return text === "" ? [] : text.slice(text.lastIndexOf(")") + 2).split(" ");
}
