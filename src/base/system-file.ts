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

/**
 * The fields of `/proc/PID/stat` or of a thread's `stat`, from the state on, which is field 3 of proc(5). Empty if the
 * file cannot be read.
 */
export function statFields(path: string): readonly string[] {
  const text = systemText(path);
  // The name before these fields may contain spaces and parentheses.
  return text === "" ? [] : text.slice(text.lastIndexOf(")") + 2).split(" ");
}
