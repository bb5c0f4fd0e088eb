/** The SQL statements of a prediction database. */
import type { Database, SQLQueryBindings } from "bun:sqlite";
import type { StoredWebhook } from "../webhooks/webhook.ts";
import type { CreationRow, EndRow, RowSource, StoredRecord, StoredRequest, StoredText, Totals } from "./rows.ts";

/** One of the oldest ended predictions. */
export interface Oldest {
  readonly seq: number;
  readonly bytes: number;
  readonly endedMs: number;
}

/** Totals, and the times of the last write, from which the next process continues the clock. */
export type Meta = Totals & { readonly elapsedMs: number; readonly wallMs: number };

type Creation = Omit<CreationRow, "body"> & { id: string; body: StoredText; deadlineMs: number; server: string };
type End = Omit<EndRow, "members"> & { id: string; members: StoredText; endedMs: number };
type Unfinished = Omit<StoredRequest, "leftMs"> & {
  readonly deadlineMs: number;
  readonly runningSinceMs: number | null;
  readonly server: string;
};

export type Statements = ReturnType<typeof statements>;

/** @param database opened with `strict`, so that bindings have names without a prefix */
export function statements(database: Database) {
  const prepare = <Result, Parameters extends SQLQueryBindings[]>(sql: string) =>
    database.prepare<Result, Parameters>(sql);
  return {
    meta: prepare<Meta, []>("SELECT count, bytes, elapsed_ms elapsedMs, wall_ms wallMs FROM meta"),
    setMeta: prepare<null, [{ [K in keyof Meta]: number }]>(
      "UPDATE meta SET count = $count, bytes = $bytes, elapsed_ms = $elapsedMs, wall_ms = $wallMs",
    ),

    create: prepare<null, [Creation]>(
      `INSERT INTO unfinished (id, kind, count, created_at_ms, timeout_ms, deadline_ms, body, origin, digest, model, server)
       VALUES ($id, $kind, $count, $createdAtMs, $timeoutMs, $deadlineMs, $body, $origin, $digest, $model, $server)
       ON CONFLICT (id) DO NOTHING`,
    ),
    started: prepare<null, [number | null, string]>("UPDATE unfinished SET begun_at_ms = ? WHERE id = ?"),
    takenOver: prepare<null, [number, string, number]>(
      "UPDATE unfinished SET begun_at_ms = NULL, deaths = ?, server = ? WHERE seq = ?",
    ),
    removeUnfinished: prepare<null, [string]>("DELETE FROM unfinished WHERE id = ?"),
    getUnfinished: prepare<StoredRecord, [string]>(
      `SELECT id, kind, count, 0 itemsDone, created_at_ms createdAtMs, begun_at_ms startedAtMs, NULL finishedAtMs,
         NULL status, '' members, '' logs, digest, model FROM unfinished WHERE id = ?`,
    ),
    sources: prepare<RowSource, []>("SELECT DISTINCT substr(id, 1, 1) owner, server FROM unfinished"),
    newest: prepare<{ seq: number }, []>("SELECT seq FROM unfinished ORDER BY seq DESC LIMIT 1"),
    oldestUnfinished: prepare<Unfinished, [number, number, string]>(
      `SELECT seq row, id, kind, count, created_at_ms createdAtMs, timeout_ms timeoutMs, deadline_ms deadlineMs,
         begun_at_ms runningSinceMs, deaths, body, origin, digest, model, server
       FROM unfinished WHERE seq > ? AND seq <= ?
         AND instr(?, substr(id, 1, 1) || ' ' || server || ',') ORDER BY seq LIMIT 1`,
    ),

    end: prepare<null, [End]>(
      `INSERT INTO ended (id, bytes, ended_ms, kind, count, items_done,
         created_at_ms, started_at_ms, finished_at_ms, status, members, logs, digest, model)
       VALUES ($id, $bytes, $endedMs, $kind, $count, $itemsDone,
         $createdAtMs, $startedAtMs, $finishedAtMs, $status, $members, $logs, $digest, $model) ON CONFLICT (id) DO NOTHING`,
    ),
    getEnded: prepare<StoredRecord & { readonly endedMs: number }, [string]>(
      `SELECT id, kind, count, items_done itemsDone, created_at_ms createdAtMs, started_at_ms startedAtMs,
         finished_at_ms finishedAtMs, status, members, logs, digest, model, ended_ms endedMs FROM ended WHERE id = ?`,
    ),
    removeExpired: prepare<{ bytes: number }, [string, number, number]>(
      "DELETE FROM ended WHERE id = ? AND ? - ended_ms > ? RETURNING bytes",
    ),
    oldest: prepare<Oldest, [number]>("SELECT seq, bytes, ended_ms endedMs FROM ended ORDER BY seq LIMIT ?"),
    removeUpTo: prepare<null, [number]>("DELETE FROM ended WHERE seq <= ?"),

    addWebhook: prepare<null, [string, string]>(
      "INSERT INTO webhooks (id, webhook) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET webhook = excluded.webhook",
    ),
    removeWebhook: prepare<null, [string]>("DELETE FROM webhooks WHERE id = ?"),
    webhooks: prepare<StoredWebhook, []>("SELECT id, webhook FROM webhooks ORDER BY seq"),
  };
}
