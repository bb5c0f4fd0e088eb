/**
 * What the file system says of blobs whose digests were checked: while that stays as it is they need not be read again, which takes a
 * second for each gigabyte.
 */
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { replaceFile } from "./durable.ts";

/** By digest. */
export type Stamps = Readonly<Record<string, string>>;

export const stampsSchema = z.record(z.string(), z.string());
const fileName = ".verified";

/** Changes with the content: no program can set the time of a file's last change (ctime). Undefined where there is no file. */
export function stampOf(path: string): string | undefined {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found && [found.ino, found.size, found.mtimeNs, found.ctimeNs].join(" ");
}

/** Those of an earlier check; none where the file is missing or damaged. */
export function readStamps(home: string): Stamps {
  try {
    return stampsSchema.parse(JSON.parse(readFileSync(join(home, fileName), "utf8")));
  } catch {
    return {};
  }
}

/** The caller holds the store's lock. */
export function writeStamps(home: string, stamps: Stamps): void {
  replaceFile(join(home, fileName), JSON.stringify(stamps));
}
