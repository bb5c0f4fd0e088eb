/** Memory of this process. */
import { readFileSync } from "node:fs";

/** Bytes of private memory of this process, without files (RssAnon of Linux). */
export function ownBytes(): number {
  return 1024 * Number(/^RssAnon:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1]);
}
