/** Opens a prediction database, and creates or upgrades its tables. */
import { Database } from "bun:sqlite";
import { chmodSync, closeSync, openSync, statSync } from "node:fs";
import { codeOf } from "../../base/errors.ts";

export interface FileOptions {
  readonly path: string;
  readonly sync?: "normal" | "full";
  /** Whether to check the file for damage. */
  readonly isChecked?: boolean;
}

/** Milliseconds that SQLite waits for a lock, which other processes hold for a few milliseconds. */
const BUSY_TIMEOUT_MS = 10_000;
/** From this number of pages of 4 kB on, a write copies the write-ahead log into the database. */
const MAX_LOG_PAGES = 4096;

/** Marks an SQLite file as a database of sconce: "scnc" in ASCII. */
const APPLICATION_ID = 0x73636e63;
const VERSION = 4;
/** Maximum size of a file that is checked for damage at the start: a check reads the whole file. */
const MAX_CHECKED_BYTES = 64 * 1024 * 1024;

/**
 * `ended_ms`, `deadline_ms` and `elapsed_ms` are times of the database's clock, others of the wall clock, all in
 * milliseconds. `head` is the JSON of a request without its body, or of a record without its outcome's members. A small
 * body or outcome is text, a large one UTF-8 in a blob. `webhook` is the JSON of a webhook with an undelivered message.
 */
const tables = `
  CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1), count INTEGER NOT NULL, bytes INTEGER NOT NULL,
    elapsed_ms REAL NOT NULL, wall_ms REAL NOT NULL
  ) STRICT;
  INSERT INTO meta VALUES (1, 0, 0, 0, 0);
  CREATE TABLE unfinished (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, deadline_ms REAL NOT NULL, running_since_ms REAL,
    deaths INTEGER NOT NULL DEFAULT 0, server TEXT NOT NULL, head TEXT NOT NULL, body ANY NOT NULL
  ) STRICT;
  CREATE TABLE ended (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, bytes INTEGER NOT NULL, ended_ms REAL NOT NULL,
    head TEXT NOT NULL, members ANY NOT NULL, webhook TEXT
  ) STRICT;
  CREATE INDEX undelivered ON ended (seq) WHERE webhook IS NOT NULL;
`;

/** A file that the server cannot read, and moves aside. The message continues a sentence, such as "it is damaged". */
export class UnreadableFile extends Error {}

/**
 * Opens the database, and creates it if it is missing.
 * @throws UnreadableFile, an error of SQLite or the disk, or an Error whose message continues a sentence
 */
export function connect({ path, sync = "normal", isChecked = false }: FileOptions): Database {
  makePrivate(path);
  const database = new Database(path, { readwrite: true, create: true, strict: true });
  try {
    database.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    prepareSchema(database);
    const isSmall = isChecked && statSync(path).size <= MAX_CHECKED_BYTES;
    if (isSmall && pragma(database, "quick_check(1)") !== "ok")
      throw new UnreadableFile("it is damaged (SQLITE_CORRUPT)");
    database.run("PRAGMA journal_mode = WAL");
    database.run(`PRAGMA synchronous = ${sync}`);
    database.run(`PRAGMA wal_autocheckpoint = ${MAX_LOG_PAGES}`);
    database.run(`PRAGMA journal_size_limit = ${MAX_LOG_PAGES * 4096}`);
    database.run("PRAGMA cache_size = -16000");
    return database;
  } catch (error) {
    database.close();
    if (codeOf(error).startsWith("SQLITE_CORRUPT"))
      throw new UnreadableFile("it is damaged (SQLITE_CORRUPT)", { cause: error });
    throw error;
  }
}

/** Makes the file readable for its owner only; SQLite gives its log files the same mode. */
function makePrivate(path: string): void {
  try {
    // Opens only a new file: closing an existing one would release the locks of SQLite in this process.
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
    chmodSync(path, 0o600);
  }
}

/** Creates the tables. Throws for a database of another program, or of another release of sconce. */
function prepareSchema(database: Database): void {
  database
    .transaction(() => {
      const [application, version] = [pragma(database, "application_id"), Number(pragma(database, "user_version"))];
      const hasTables = database.query("SELECT 1 FROM sqlite_schema LIMIT 1").get() !== null;
      if (application === 0 && version === 0 && !hasTables) {
        database.run(tables);
        database.run(`PRAGMA application_id = ${APPLICATION_ID}`);
        database.run(`PRAGMA user_version = ${VERSION}`);
        return;
      }
      if (application !== APPLICATION_ID) throw new Error("it is a database of another program; name another file");
      if (version > VERSION) {
        const versions = `its format is ${version} and this sconce knows ${VERSION}`;
        throw new Error(`a newer sconce wrote it (${versions}); use that one, or name another file`);
      }
      if (version < VERSION) throw new UnreadableFile("an earlier sconce wrote it");
    })
    .immediate();
}

/** The value that a pragma reads. */
function pragma(database: Database, name: string): unknown {
  const [[value] = []] = database.query(`PRAGMA ${name}`).values();
  return value;
}
