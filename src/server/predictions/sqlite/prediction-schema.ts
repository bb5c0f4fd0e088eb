/** The tables of a prediction database, and whether a file has them. */
import type { Database } from "bun:sqlite";
import { statSync } from "node:fs";
import { SconceError } from "../../../base/errors.ts";

/** "scnc": tells a prediction database from those of other programs. */
const APPLICATION_ID = 0x73636e63;
const VERSION = 1;
/** A whole check reads a whole file: of a larger one only what is opened with is looked at. */
const MAX_CHECKED_BYTES = 64 * 1024 * 1024;

/** Times are real numbers: milliseconds of the wall clock, or of the clock that is never set (`ended_ms`, `deadline_ms`). */
const tables = `
  CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1), count INTEGER NOT NULL, bytes INTEGER NOT NULL,
    elapsed_ms REAL NOT NULL, wall_ms REAL NOT NULL
  ) STRICT;
  INSERT INTO meta VALUES (1, 0, 0, 0, 0);
  CREATE TABLE unfinished (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, count INTEGER NOT NULL,
    created_at_ms REAL NOT NULL, timeout_ms REAL NOT NULL, deadline_ms REAL NOT NULL, begun_at_ms REAL,
    deaths INTEGER NOT NULL DEFAULT 0, file TEXT, body TEXT NOT NULL,
    origin TEXT NOT NULL DEFAULT '', digest TEXT NOT NULL DEFAULT ''
  ) STRICT;
  CREATE TABLE ended (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, bytes INTEGER NOT NULL, ended_ms REAL NOT NULL, file TEXT,
    file_members_bytes INTEGER NOT NULL, kind TEXT NOT NULL, count INTEGER NOT NULL, items_done INTEGER NOT NULL,
    created_at_ms REAL NOT NULL, started_at_ms REAL, finished_at_ms REAL NOT NULL, status TEXT NOT NULL,
    members TEXT NOT NULL, logs TEXT NOT NULL, digest TEXT NOT NULL DEFAULT ''
  ) STRICT;
`;
const laterColumns = [
  ["unfinished", "origin"],
  ["unfinished", "digest"],
  ["ended", "digest"],
] as const;
/**
 * Small outcomes that their clients were told with the answer, hundreds a row, as told-pack.ts makes them: nearly nobody asks for one again.
 * `first_s` and `last_s` are seconds of their ids.
 */
const toldTable = `
  CREATE TABLE IF NOT EXISTS told (
    seq INTEGER PRIMARY KEY, first_s INTEGER NOT NULL, last_s INTEGER NOT NULL, count INTEGER NOT NULL, bytes INTEGER NOT NULL,
    written_ms REAL NOT NULL, ids TEXT NOT NULL, heads TEXT NOT NULL, texts TEXT NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS told_by_second ON told (last_s, first_s);
`;
/** Whom to tell of predictions, until that is done. */
const webhooksTable = `
  CREATE TABLE IF NOT EXISTS webhooks (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, webhook TEXT NOT NULL
  ) STRICT;
`;

/**
 * Makes the tables in an empty database.
 * @throws SconceError `predictions_unusable` for one of another program or of a newer sconce
 */
export function prepareSchema(database: Database, path: string): void {
  if (number(database, "user_version") === 0 && number(database, "application_id") === 0) {
    // Kept before the tables are there: later it would take a rewrite of the file.
    database.run("PRAGMA auto_vacuum = INCREMENTAL");
  }
  database
    .transaction(() => {
      const [application, version] = [number(database, "application_id"), number(database, "user_version")];
      const hasTables = database.query("SELECT 1 FROM sqlite_schema LIMIT 1").get() !== null;
      if (application === 0 && version === 0 && !hasTables) {
        database.run(tables);
        database.run(toldTable);
        database.run(webhooksTable);
        database.run(`PRAGMA application_id = ${APPLICATION_ID}`);
        database.run(`PRAGMA user_version = ${VERSION}`);
        return;
      }
      if (application !== APPLICATION_ID)
        throw unusable(path, "it is a database of another program; name another file");
      if (version > VERSION) {
        const versions = `its format is ${version} and this sconce knows ${VERSION}`;
        throw unusable(path, `a newer sconce wrote it (${versions}); use that one, or name another file`);
      }
      // Files of earlier releases have no such tables and columns, and these releases do without them.
      database.run(toldTable);
      database.run(webhooksTable);
      for (const [table, column] of laterColumns) {
        const has = database.query("SELECT 1 FROM pragma_table_info(?) WHERE name = ?").get(table, column);
        if (has === null) database.run(`ALTER TABLE ${table} ADD COLUMN ${column} TEXT NOT NULL DEFAULT ''`);
      }
    })
    .immediate();
  if (statSync(path).size > MAX_CHECKED_BYTES) return;
  const fault = text(database, "quick_check(1)");
  if (fault !== "ok") throw unusable(path, "it is damaged (SQLITE_CORRUPT); move it away to begin anew");
}

export function unusable(path: string, reason: string, cause?: unknown): SconceError {
  return new SconceError("predictions_unusable", `the predictions in ${path} cannot be used: ${reason}`, { cause });
}

function number(database: Database, pragma: string): number {
  return Number(text(database, pragma));
}

function text(database: Database, pragma: string): string {
  const [[value] = []] = database.query(`PRAGMA ${pragma}`).values();
  return String(value);
}
