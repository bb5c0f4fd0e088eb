/** Every statement that a prediction database runs, with the types of its parameters and rows. */
import type { Database, Statement } from "bun:sqlite";
import type { KeptWebhook } from "../../webhooks/webhook-store.ts";
import type { StoredRecord, StoredRequest, Totals } from "./sqlite-messages.ts";

type Name = string | null;
type Taken = Omit<StoredRequest, "leftMs"> & { readonly deadlineMs: number; readonly begunAtMs: number | null };

/** Outcomes that retention forgets together. */
export interface Oldest {
  readonly seq: number;
  readonly count: number;
  readonly bytes: number;
  readonly endedMs: number;
  readonly file: Name;
}

interface Pack {
  readonly writtenMs: number;
  readonly heads: string;
  readonly texts: string;
}

const timesOf = "created_at_ms createdAtMs, started_at_ms startedAtMs, finished_at_ms finishedAtMs";

export type Statements = ReturnType<typeof statements>;

export function statements(database: Database) {
  const meta: Statement<Totals & { elapsedMs: number; wallMs: number }, []> = database.prepare(
    "SELECT count totalCount, bytes totalBytes, elapsed_ms elapsedMs, wall_ms wallMs FROM meta",
  );
  const setMeta: Statement<null, [number, number, number, number]> = database.prepare(
    "UPDATE meta SET count = ?, bytes = ?, elapsed_ms = ?, wall_ms = ?",
  );
  const create: Statement<
    null,
    [string, string, number, number, number, number, number | null, Name, string, string, string]
  > = database.prepare(
    `INSERT INTO unfinished (id, kind, count, created_at_ms, timeout_ms, deadline_ms, begun_at_ms, file, body, origin, digest)
       SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11 WHERE NOT EXISTS (SELECT 1 FROM ended WHERE id = ?1)
       ON CONFLICT (id) DO NOTHING`,
  );
  const begun: Statement<null, [number | null, string]> = database.prepare(
    "UPDATE unfinished SET begun_at_ms = ? WHERE id = ?",
  );
  const died: Statement<null, [number]> = database.prepare(
    "UPDATE unfinished SET begun_at_ms = NULL, deaths = deaths + 1 WHERE seq = ?",
  );
  const end: Statement<
    null,
    [
      string,
      number,
      number,
      Name,
      number,
      string,
      number,
      number,
      number,
      number | null,
      number,
      string,
      string,
      string,
      string,
    ]
  > = database.prepare(
    `INSERT INTO ended (id, bytes, ended_ms, file, file_members_bytes, kind, count, items_done,
       created_at_ms, started_at_ms, finished_at_ms, status, members, logs, digest)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
  );
  const removeExpired: Statement<{ bytes: number; file: Name }, [string, number, number]> = database.prepare(
    "DELETE FROM ended WHERE id = ? AND ? - ended_ms > ? RETURNING bytes, file",
  );
  const removeUnfinished: Statement<{ file: Name }, [string]> = database.prepare(
    "DELETE FROM unfinished WHERE id = ? RETURNING file",
  );
  const oldest: Statement<Oldest, [number]> = database.prepare(
    "SELECT seq, 1 count, bytes, ended_ms endedMs, file FROM ended ORDER BY seq LIMIT ?",
  );
  const removeUpTo: Statement<null, [number]> = database.prepare("DELETE FROM ended WHERE seq <= ?");
  const tell: Statement<null, [number, number, number, number, number, string, string, string]> = database.prepare(
    "INSERT INTO told (first_s, last_s, count, bytes, written_ms, ids, heads, texts) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
  );
  const oldestTold: Statement<Oldest, [number]> = database.prepare(
    "SELECT seq, count, bytes, written_ms endedMs, NULL file FROM told ORDER BY seq LIMIT ?",
  );
  const removeToldUpTo: Statement<null, [number]> = database.prepare("DELETE FROM told WHERE seq <= ?");
  const getTold: Statement<Pack, [number, string]> = database.prepare(
    `SELECT written_ms writtenMs, heads, texts FROM told
     WHERE last_s >= ?1 AND first_s <= ?1 AND instr(ids, ?2) > 0`,
  );
  const getEnded: Statement<StoredRecord & { endedMs: number }, [string]> = database.prepare(
    `SELECT id, kind, count, items_done itemsDone, ${timesOf}, status, members, logs, digest, file,
       file_members_bytes fileMembersBytes, ended_ms endedMs FROM ended WHERE id = ?`,
  );
  const getUnfinished: Statement<StoredRecord, [string]> = database.prepare(
    `SELECT id, kind, count, 0 itemsDone, created_at_ms createdAtMs, begun_at_ms startedAtMs, NULL finishedAtMs,
       NULL status, '' members, '' logs, digest, NULL file, 0 fileMembersBytes FROM unfinished WHERE id = ?`,
  );
  const owners: Statement<{ owner: string }, []> = database.prepare("SELECT DISTINCT substr(id, 1, 1) FROM unfinished");
  const newest: Statement<{ seq: number }, []> = database.prepare(
    "SELECT seq FROM unfinished ORDER BY seq DESC LIMIT 1",
  );
  const oldestOf: Statement<Taken, [number, number, string]> = database.prepare(
    `SELECT seq row, id, kind, count, created_at_ms createdAtMs, timeout_ms timeoutMs, deadline_ms deadlineMs,
       begun_at_ms begunAtMs, deaths, file, body, origin, digest
     FROM unfinished WHERE seq > ? AND seq <= ? AND instr(?, substr(id, 1, 1)) ORDER BY seq LIMIT 1`,
  );
  const files: Statement<{ file: string }, []> = database.prepare(
    "SELECT file FROM unfinished WHERE file IS NOT NULL UNION ALL SELECT file FROM ended WHERE file IS NOT NULL",
  );
  const keepWebhooks: Statement<null, [string]> = database.prepare(
    `INSERT INTO webhooks (id, webhook) SELECT value ->> 'id', value ->> 'webhook' FROM json_each(?) WHERE true
     ON CONFLICT (id) DO UPDATE SET webhook = excluded.webhook`,
  );
  const forgetWebhooks: Statement<null, [string]> = database.prepare(
    "DELETE FROM webhooks WHERE id IN (SELECT value FROM json_each(?))",
  );
  const webhooks: Statement<KeptWebhook, []> = database.prepare("SELECT id, webhook FROM webhooks ORDER BY seq");
  const ofWebhooks = { keepWebhooks, forgetWebhooks, webhooks };
  const ofRecords = { getEnded, getUnfinished, end, removeExpired, oldest, removeUpTo };
  const ofTold = { tell, getTold, oldestTold, removeToldUpTo };
  const ofRequests = { create, begun, died, removeUnfinished, owners, newest, oldestOf };
  return { meta, setMeta, files, ...ofRecords, ...ofTold, ...ofRequests, ...ofWebhooks };
}
