/** The SQL statements of a prediction database, and the rows that they read. */
import type { Database, SQLQueryBindings } from "bun:sqlite";
import type { WebhookKey } from "../webhooks/webhook.ts";

/** A text, or UTF-8 if it is large. */
export type StoredText = string | Uint8Array<ArrayBuffer>;

/** Number of ended predictions in the database, and the bytes counted for them. */
export interface Totals {
  count: number;
  bytes: number;
}

/** Totals, and the times of the last write, from which the next process continues the clock. */
export type Meta = Totals & { readonly elapsedMs: number; readonly wallMs: number };

/** An unfinished prediction: its row, the first character of its id, and the name of the server that accepted it. */
export interface UnfinishedRow {
  readonly row: number;
  readonly owner: string;
  readonly server: string;
}

export interface StoredRequest {
  /** JSON of the request without its body. */
  readonly head: string;
  readonly body: StoredText;
  /** Milliseconds until the time limit. */
  readonly leftMs: number;
  /** Number of processes that died while they ran the request. */
  readonly deaths: number;
}

/** An ended prediction, or an unfinished one without `members`. */
export interface StoredRecord {
  /** JSON of the record without its outcome's members, or of the request without its body. */
  readonly head: string;
  readonly members: StoredText | null;
  /** Milliseconds since 1970; null for an ended prediction. */
  readonly runningSinceMs: number | null;
}

/** An undelivered webhook, as JSON. */
export type WebhookRow = WebhookKey & { readonly webhook: string };

/** One of the oldest ended predictions. */
export interface Oldest {
  readonly seq: number;
  readonly bytes: number;
  readonly endedMs: number;
}

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

    create: prepare<null, [{ id: string; deadlineMs: number; server: string; head: string; body: StoredText }]>(
      `INSERT INTO unfinished (id, deadline_ms, server, head, body) VALUES ($id, $deadlineMs, $server, $head, $body)
       ON CONFLICT (id) DO NOTHING`,
    ),
    started: prepare<null, [number | null, string]>("UPDATE unfinished SET running_since_ms = ? WHERE id = ?"),
    takenOver: prepare<null, [number, string, string]>(
      "UPDATE unfinished SET running_since_ms = NULL, deaths = ?, server = ? WHERE id = ?",
    ),
    removeUnfinished: prepare<null, [string]>("DELETE FROM unfinished WHERE id = ?"),
    getUnfinished: prepare<StoredRecord, [string]>(
      "SELECT head, NULL members, running_since_ms runningSinceMs FROM unfinished WHERE id = ?",
    ),
    unfinished: prepare<UnfinishedRow, []>(
      "SELECT seq row, substr(id, 1, 1) owner, server FROM unfinished ORDER BY seq",
    ),
    request: prepare<StoredRequest, [number, number]>(
      `SELECT head, body, deadline_ms - ? leftMs, deaths + (running_since_ms IS NOT NULL) deaths
       FROM unfinished WHERE seq = ?`,
    ),

    // The webhook of the request is sent after the end.
    end: prepare<null, [{ id: string; bytes: number; endedMs: number; head: string; members: StoredText }]>(
      `INSERT INTO ended (id, bytes, ended_ms, head, members, webhook)
       VALUES ($id, $bytes, $endedMs, $head, $members, (SELECT head -> '$.webhook' FROM unfinished WHERE id = $id))
       ON CONFLICT (id) DO NOTHING`,
    ),
    getEnded: prepare<StoredRecord & { readonly endedMs: number }, [string]>(
      "SELECT head, members, NULL runningSinceMs, ended_ms endedMs FROM ended WHERE id = ?",
    ),
    removeExpired: prepare<{ bytes: number }, [string, number, number]>(
      "DELETE FROM ended WHERE id = ? AND ? - ended_ms > ? RETURNING bytes",
    ),
    oldest: prepare<Oldest, [number]>("SELECT seq, bytes, ended_ms endedMs FROM ended ORDER BY seq LIMIT ?"),
    removeUpTo: prepare<null, [number]>("DELETE FROM ended WHERE seq <= ?"),

    removeWebhook: prepare<null, [string, number]>(
      "UPDATE ended SET webhook = NULL WHERE id = ? AND head ->> '$.createdAtMs' = ?",
    ),
    webhooks: prepare<WebhookRow, []>(
      "SELECT id, head ->> '$.createdAtMs' createdAtMs, webhook FROM ended WHERE webhook IS NOT NULL ORDER BY seq",
    ),
  };
}
