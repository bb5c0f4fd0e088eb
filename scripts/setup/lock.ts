/** One set-up at a time in a checkout; a second one waits and then finds the work done. */

import { Database } from "bun:sqlite";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { line } from "./report.ts";
import { state } from "./step.ts";

/** SQLite's lock on its file ends with the process, however that ends: no stale lock is ever left. */
export async function withLock(work: () => Promise<void>): Promise<void> {
  mkdirSync(state, { recursive: true });
  const database = new Database(join(state, "lock.sqlite"), { create: true });
  try {
    acquire(database);
    await work();
  } finally {
    database.close();
  }
}

function acquire(database: Database): void {
  try {
    database.run("PRAGMA busy_timeout = 0");
    database.run("BEGIN EXCLUSIVE");
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "SQLITE_BUSY")) throw error;
    console.error(line(" ", "set-up", "another one is at work in this checkout; waiting for it"));
    database.run("PRAGMA busy_timeout = 3600000");
    database.run("BEGIN EXCLUSIVE");
  }
}
