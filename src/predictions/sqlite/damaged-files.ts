/** Moves the files of a database that cannot be read, so that the server begins with a new database. */
import { existsSync, renameSync } from "node:fs";

/** The database, its write-ahead log, and the folder of large values. SQLite makes the shared memory again. */
const suffixes = ["", "-wal", "-files"];

/** @returns the new path of the database. The names of the other files begin with it */
export function moveAside(path: string): string {
  const aside = `${path}.damaged-${new Date().toISOString().replaceAll(/[^\dT]/g, "")}`;
  for (const suffix of suffixes) if (existsSync(path + suffix)) renameSync(path + suffix, aside + suffix);
  return aside;
}
