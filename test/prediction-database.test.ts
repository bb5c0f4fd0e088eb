/** A client may use an id again once its outcome has expired, even if its row is still in the database. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import type { EndedRecord } from "../src/predictions/record.ts";
import { Changes } from "../src/predictions/sqlite/changes.ts";
import { PredictionDatabase, type Written } from "../src/predictions/sqlite/prediction-database.ts";
import { rowOf } from "../src/predictions/sqlite/rows.ts";
import { endOf, keepAll, requestOf } from "./helpers/predictions.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";

const BYTES = 700;
const retention = { ...keepAll, maxAgeMs: 1000 };
/** More predictions than one commit can evict. */
const ids = Array.from({ length: 60 }, (_, index) => `a-chosen-id-${index}`);
const id = ids.at(-1) ?? "";
const again = endOf(id, { outcome: { status: "success", members: '"outputs":["again"]' } });

let dir: TempDir;
let wallMs: number;
let database: PredictionDatabase;

beforeEach(async () => {
  dir = await tempDir();
  wallMs = 0;
  database = open();
});

afterEach(async () => {
  database.close();
  await dir[Symbol.asyncDispose]();
});

function open(): PredictionDatabase {
  return PredictionDatabase.open({
    path: dir.join("predictions.db"),
    sync: "normal",
    isMain: false,
    server: "",
    wallMs,
    ...retention,
  });
}

/** Closes the database, and opens it again at a time when all outcomes have expired. */
function expire(): void {
  database.close();
  wallMs += retention.maxAgeMs + 1;
  database = open();
}

function write(change: (changes: Changes) => void): Written {
  const changes = new Changes(retention);
  change(changes);
  const nowMs = performance.now();
  return database.write({ rows: JSON.stringify(changes.take().map((each) => rowOf(each, nowMs))), wallMs });
}

function create(changes: Changes, name: string): void {
  const request = requestOf(name);
  const creation = { request, body: request.body, file: undefined, atMs: performance.now() };
  changes.create(creation, Promise.withResolvers());
}

function ends(changes: Changes, record: EndedRecord, file?: string): void {
  changes.end({ record, bytes: BYTES, atMs: performance.now(), ...(file !== undefined && { file }) });
}

/** Commits the end of a prediction. */
function end(record: EndedRecord, file?: string): Written {
  return write((changes) => ends(changes, record, file));
}

const endAll = () =>
  write((changes) => {
    for (const each of ids) ends(changes, endOf(each));
  });

describe("an id that a client uses again", () => {
  test("names a new prediction once its outcome has expired", () => {
    endAll();
    expire();
    expect(database.get(id)).toBeUndefined();
    write((changes) => create(changes, id));
    expect(database.get(id)).toMatchObject({ id, status: null });
    expect(database.takeOver({ sources: "a ,", after: 0, upTo: 1 })).toMatchObject({ id, body: `["${id}"]` });
    expect(end(again).refused).toBe("");
    expect(database.get(id)?.members).toBe(String(again.outcome.members));
  });

  test("gets its request and its outcome in one commit", () => {
    endAll();
    expire();
    const { refused } = write((changes) => {
      create(changes, id);
      ends(changes, again);
    });
    expect(refused).toBe("");
    expect(database.get(id)?.members).toBe(String(again.outcome.members));
  });

  test("gets an outcome that is written later", () => {
    endAll();
    end(endOf("a-second-id"));
    expire();
    end({ ...again, id: "a-second-id" });
    expect(database.get("a-second-id")?.members).toBe(String(again.outcome.members));
  });

  test("counts once, and the file of the expired outcome is removed", async () => {
    endAll();
    const file = dir.join("predictions.db-files", "a-large-one");
    const members = `"outputs":["${"x".repeat(100_000)}"]`;
    await Bun.write(file, members);
    end(endOf("a-large-one", { outcome: { status: "success", members } }), "a-large-one");
    expire();
    const before = database.totals;
    const after = end(endOf("a-large-one"));
    const swept = before.totalCount - after.totalCount;
    expect(swept).toBeGreaterThan(0);
    expect(swept).toBeLessThan(ids.length);
    expect(after.totalBytes).toBe(after.totalCount * BYTES);
    expect(existsSync(file)).toBe(false);
    while (database.tend());
    expect(database.totals).toMatchObject({ totalCount: 1, totalBytes: BYTES });
  });

  test("is refused, with its request and its outcome, before the earlier outcome has expired", () => {
    endAll();
    const { totalCount, totalBytes } = database.totals;
    write((changes) => create(changes, id));
    expect(end(again)).toEqual({ totalCount, totalBytes, refused: id });
    expect(database.get(id)?.members).toBe(String(endOf(id).outcome.members));
  });
});
