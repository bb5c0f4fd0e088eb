/** What a database promises of ids that are taken again, when retention has not come to the rows of the predictions that had them before. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import type { EndedRecord } from "../src/server/predictions/record.ts";
import { ChangeQueue } from "../src/server/predictions/sqlite/change-queue.ts";
import { PredictionDatabase } from "../src/server/predictions/sqlite/prediction-database.ts";
import { decodeBatch, encodeBatch } from "../src/server/predictions/sqlite/sqlite-batch.ts";
import type { Written } from "../src/server/predictions/sqlite/sqlite-messages.ts";
import { packOf } from "../src/server/predictions/sqlite/told-pack.ts";
import { endOf, keepAll, requestOf } from "./helpers/predictions.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";

const BYTES = 700;
const retention = { ...keepAll, maxAgeMs: 1000 };
/** Many more than one commit removes. */
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
    type: "open",
    path: dir.join("predictions.db"),
    sync: "normal",
    isMain: false,
    wallMs,
    ...retention,
  });
}

/** Opens the database as a process does that begins when all that is in it has expired. */
function expire(): void {
  database.close();
  wallMs += retention.maxAgeMs + 1;
  database = open();
}

/** Commits what a store is told. */
function write(tell: (queue: ChangeQueue) => void): Written {
  const queue = new ChangeQueue(retention);
  tell(queue);
  queue.hasten();
  const { changes, told, large } = queue.take(ids.length);
  const nowMs = performance.now();
  const filed = large.map((change) => ({ ...change, file: change.id }));
  const rows = decodeBatch(encodeBatch([...changes, ...filed], nowMs));
  return database.write(rows, packOf(told, nowMs), wallMs);
}

function create(queue: ChangeQueue, name: string): void {
  queue.create({
    request: requestOf(name),
    file: undefined,
    begunAtMs: undefined,
    waiting: { resolve: () => {}, reject: () => {} },
  });
}

/** @param isCreated whether the prediction was kept as a request; else its client was told the outcome with the answer */
function end(record: EndedRecord, isCreated: boolean): Written {
  return write((queue) => queue.end(record, BYTES, isCreated));
}

const endAll = () =>
  write((queue) => {
    for (const each of ids) queue.end(endOf(each), BYTES, true);
  });

describe("an id that is taken again", () => {
  test("once its outcome has expired is a prediction of its own, with the outcome of that", () => {
    endAll();
    expire();
    expect(database.get(id)).toBeUndefined();
    write((queue) => create(queue, id));
    expect(database.get(id)).toMatchObject({ id, status: null });
    expect(database.take({ type: "take", owners: "a", after: 0, upTo: 1 })).toMatchObject({ id, body: `["${id}"]` });
    expect(end(again, true).refused).toBe("");
    expect(database.get(id)?.members).toBe(String(again.outcome.members));
  });

  test("has its outcome where both were told in one turn", () => {
    endAll();
    expire();
    const { refused } = write((queue) => {
      create(queue, id);
      queue.end(again, BYTES, true);
    });
    expect(refused).toBe("");
    expect(database.get(id)?.members).toBe(String(again.outcome.members));
  });

  test.each([true, false])(
    "has the outcome that is told with the answer, whether the one before was kept as a request (%p) or not",
    (wasCreated) => {
      endAll();
      end(endOf("a-late-id"), wasCreated);
      expire();
      end({ ...again, id: "a-late-id" }, false);
      expect(database.get("a-late-id")?.members).toBe(String(again.outcome.members));
    },
  );

  test("counts once, and the file of the expired outcome goes", async () => {
    endAll();
    const file = dir.join("predictions.db-files", "a-large-one");
    const members = `"outputs":["${"x".repeat(100_000)}"]`;
    await Bun.write(file, members);
    end(endOf("a-large-one", { outcome: { status: "success", members } }), true);
    expire();
    const before = database.totals;
    const after = end(endOf("a-large-one"), true);
    const swept = before.totalCount - after.totalCount;
    expect(swept).toBeGreaterThan(0);
    expect(swept).toBeLessThan(ids.length);
    expect(after.totalBytes).toBe(after.totalCount * BYTES);
    expect(existsSync(file)).toBe(false);
    while (database.tend());
    expect(database.totals).toMatchObject({ totalCount: 1, totalBytes: BYTES });
  });

  test("before its outcome has expired changes nothing", () => {
    endAll();
    const { totalCount, totalBytes } = database.totals;
    write((queue) => create(queue, id));
    expect(end(again, true)).toEqual({ totalCount, totalBytes, refused: id });
    expect(database.get(id)?.members).toBe(String(endOf(id).outcome.members));
  });
});
