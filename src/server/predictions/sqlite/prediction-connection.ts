/** Opens the file of a prediction database, private and with a write-ahead log. */
import { Database } from "bun:sqlite";
import { chmodSync, closeSync, openSync } from "node:fs";
import { prepareSchema } from "./prediction-schema.ts";
import type { OpenMessage } from "./sqlite-messages.ts";

/** Other processes hold the lock for milliseconds. */
const BUSY_TIMEOUT_MS = 10_000;
/** The write-ahead log is copied into the database when it is larger, or when there is nothing else to do. */
export const MAX_LOG_BYTES = 16 * 1024 * 1024;

export function connect({ path, sync }: Pick<OpenMessage, "path" | "sync">): Database {
  makePrivate(path);
  const database = new Database(path, { readwrite: true, create: true });
  try {
    database.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    prepareSchema(database, path);
    database.run("PRAGMA journal_mode = WAL");
    database.run(`PRAGMA synchronous = ${sync}`);
    database.run("PRAGMA wal_autocheckpoint = 0");
    database.run(`PRAGMA journal_size_limit = ${MAX_LOG_BYTES}`);
    database.run("PRAGMA cache_size = -16000");
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** SQLite gives its other files the mode of this one. */
function makePrivate(path: string): void {
  try {
    // Only where it is new: closing a file takes this process's locks of it away.
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
    chmodSync(path, 0o600);
  }
}
