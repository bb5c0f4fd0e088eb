/** What a database of predictions promises to one process, and to the next. */
import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { readdir, stat } from "node:fs/promises";
import { newId } from "../src/predictions/ids.ts";
import { MAX_INLINE_LENGTH } from "../src/predictions/sqlite/kept-files.ts";
import { type SqliteOptions, SqliteStore } from "../src/predictions/sqlite/sqlite-store.ts";
import type { LeftRequest } from "../src/predictions/store.ts";
import { asText, endOf, keepAll, largeEndOf, requestOf } from "./helpers/predictions.ts";
import { until } from "./helpers/running.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";

const everyone = (_owner: string) => true;

function open(dir: TempDir, options: Partial<SqliteOptions> = {}): Promise<SqliteStore> {
  return SqliteStore.open({ path: dir.join("predictions.db"), retention: keepAll, ...options });
}

/** A store whose thread is told what is noted here. */
async function openNoting(dir: TempDir, options: Partial<SqliteOptions> = {}) {
  const posted: { type: string; heads?: string; texts?: string }[] = [];
  const newWorker = () => {
    const worker = new Worker(new URL("../src/predictions/sqlite/sqlite-worker.ts", import.meta.url));
    const post = worker.postMessage.bind(worker);
    worker.postMessage = (message) => {
      posted.push(message);
      post(message);
    };
    return worker;
  };
  const store = await open(dir, { ...options, newWorker });
  /** The lines of all changes. */
  const changes = () => posted.flatMap(({ heads = "" }) => heads.split("\n").filter((line) => line !== ""));
  return { store, posted, changes };
}

function leftOf(store: SqliteStore, owners = everyone): Promise<LeftRequest[]> {
  return Array.fromAsync(store.left(owners));
}

describe("what is kept", () => {
  test("is read as it was told, by this process and by the next", async () => {
    await using dir = await tempDir();
    const odd = endOf("a1", {
      kind: "demo",
      startedAtMs: undefined,
      outcome: { status: "failed", members: '"error_message":"語 \\u0000 😀"' },
      logs: "a\0b\né 😀",
    });
    const large = { ...largeEndOf("a2", 100_000), logs: "large, too: é" };
    const store = await open(dir);
    for (const record of [odd, large]) store.finish(record);
    expect([await store.get("a1"), await store.get("a2")]).toEqual([odd, large]);
    await store.close();
    const next = await open(dir);
    expect([await next.get("a1"), asText(await next.get("a2")), await next.get("a3")]).toEqual([odd, large, undefined]);
    expect(next.retained.count).toBe(2);
    await next.close();
  });

  test("can be read before it is written, whatever its size", async () => {
    await using dir = await tempDir();
    const store = await open(dir, { retention: { ...keepAll, maxBytes: 1 } });
    store.finish(endOf("a1"));
    const large = largeEndOf("a2", 40_000_000);
    await store.create(requestOf("a2"));
    store.finish(large);
    expect(await store.get("a2")).toBe(large);
    await store.close();
  });

  test.each(["small", "large"])("is told once it is written, where its request was kept (%s)", async (size) => {
    await using dir = await tempDir();
    const store = await open(dir);
    await store.create(requestOf("a1"));
    const record = size === "small" ? endOf("a1") : largeEndOf("a1", 100_000);
    store.finish(record);
    expect(await store.get("a1")).toEqual(record);
    using database = new Database(dir.join("predictions.db"), { readonly: true });
    expect(database.query("SELECT id FROM ended").all()).toEqual([{ id: "a1" }]);
    await store.close();
  });

  test("is the first outcome, of two processes too", async () => {
    await using dir = await tempDir();
    const [main, member] = [await open(dir), await open(dir, { role: "member" })];
    await main.create(requestOf("a1"));
    const [first, second] = [largeEndOf("a1", 100_000), largeEndOf("a1", 200_000)];
    main.finish(first);
    main.finish(second);
    await main.flush();
    member.finish(second);
    await member.flush();
    expect([await main.get("a1"), await member.get("a1")].map(asText)).toEqual([first, first]);
    expect(await readdir(dir.join("predictions.db-files"))).toHaveLength(1);
    await member.close();
    await main.close();
  });

  test("is counted no longer once it has expired, though nothing more is told", async () => {
    await using dir = await tempDir();
    const store = await open(dir, { retention: { ...keepAll, maxAgeMs: 200 } });
    await store.create(requestOf("a1"));
    store.finish(endOf("a1"));
    await store.flush();
    await until(() => store.retained.count === 0);
    expect(store.retained).toEqual({ count: 0, bytes: 0 });
    await store.close();
  });

  test("is private", async () => {
    await using dir = await tempDir();
    const store = await open(dir);
    await store.create(requestOf("a1", { body: `["${"x".repeat(100_000)}"]` }));
    const modeOf = async (name: string) => ((await stat(dir.join(name))).mode & 0o777).toString(8);
    for (const name of await readdir(dir.path)) {
      expect(`${name} ${await modeOf(name)}`).toBe(`${name} ${name.endsWith("-files") ? "700" : "600"}`);
    }
    const [file = ""] = await readdir(dir.join("predictions.db-files"));
    expect(await modeOf(`predictions.db-files/${file}`)).toBe("600");
    await store.close();
  });

  test.each(["normal", "full"] as const)("with sync %p survives", async (sync) => {
    await using dir = await tempDir();
    const store = await open(dir, { sync });
    await store.create(requestOf("a1", { body: `["${"x".repeat(100_000)}"]` }));
    store.finish(endOf("a2"));
    await store.close();
    const next = await open(dir, { sync });
    expect((await leftOf(next)).map(({ id, body }) => `${id} ${body.length}`)).toEqual(["a1 100004"]);
    expect(await next.get("a2")).toEqual(endOf("a2"));
    await next.close();
  });
});

describe("a prediction that has not ended", () => {
  test("is pending or running for another process", async () => {
    await using dir = await tempDir();
    const [main, member] = [await open(dir), await open(dir, { role: "member" })];
    await Promise.all([main.create(requestOf("a1")), main.create(requestOf("a2", { kind: "demo", count: 3 }))]);
    main.begun("a2");
    await main.flush();
    expect(await member.get("a1")).toMatchObject({ startedAtMs: undefined, outcome: undefined, itemsDone: 0 });
    expect(await member.get("a2")).toMatchObject({ kind: "demo", count: 3, startedAtMs: expect.any(Number) });
    await member.close();
    await main.close();
  });

  test("is taken over by the next process, oldest first, with its deaths", async () => {
    await using dir = await tempDir();
    const deaths = async (act: (store: SqliteStore) => void | Promise<void>) => {
      const store = await open(dir);
      const left = (await leftOf(store)).map((request) => `${request.id} ${request.deaths} ${request.body}`);
      await act(store);
      await store.close();
      return left;
    };
    await deaths(async (store) => {
      for (const id of ["a3", "a1", "a2"]) await store.create(requestOf(id));
      store.begun("a1");
    });
    expect(await deaths((store) => store.begun("a1"))).toEqual(['a3 0 ["a3"]', 'a1 1 ["a1"]', 'a2 0 ["a2"]']);
    expect(await deaths((store) => store.finish(endOf("a1")))).toEqual(['a3 0 ["a3"]', 'a1 2 ["a1"]', 'a2 0 ["a2"]']);
    expect(await deaths(() => {})).toEqual(['a3 0 ["a3"]', 'a2 0 ["a2"]']);
  });

  test("is kept with its outcome when it ends while its body is being written", async () => {
    await using dir = await tempDir();
    const [main, member] = [await open(dir), await open(dir, { role: "member" })];
    const creating = main.create(requestOf("a1", { body: `["${"b".repeat(MAX_INLINE_LENGTH)}"]` }));
    main.finish(endOf("a1"));
    await creating;
    expect(await member.get("a1")).toEqual(endOf("a1"));
    await member.close();
    await main.close();
  });

  test("counts no death when its process ended in order", async () => {
    await using dir = await tempDir();
    for (const isWritten of [true, false]) {
      const store = await open(dir);
      if (isWritten) await store.create(requestOf("a1"));
      else expect(await leftOf(store)).toMatchObject([{ id: "a1", deaths: 0 }]);
      store.begun("a1");
      if (isWritten) await store.flush();
      store.interrupted("a1");
      await store.close();
    }
    const store = await open(dir);
    expect(await leftOf(store)).toMatchObject([{ id: "a1", deaths: 0 }]);
    await store.close();
  });

  test("is left to its owner", async () => {
    await using dir = await tempDir();
    const store = await open(dir);
    for (const id of ["a1", "b1", "c1"]) await store.create(requestOf(id));
    const member = await open(dir, { role: "member" });
    expect((await leftOf(member, (owner) => owner !== "a")).map(({ id }) => id)).toEqual(["b1", "c1"]);
    expect(await leftOf(member, () => false)).toEqual([]);
    await member.close();
    await store.close();
  });

  test("has its body taken over one at a time, and is gone without it", async () => {
    await using dir = await tempDir();
    const store = await open(dir);
    const body = new TextEncoder().encode(JSON.stringify(["é", "x".repeat(100_000)]));
    await store.create(requestOf("a1", { body }));
    await store.create(requestOf("a2", { body: new TextEncoder().encode('["é"]') }));
    await store.create(requestOf("a3", { body: `["${"x".repeat(100_000)}"]` }));
    await store.close();
    for (const name of await readdir(dir.join("predictions.db-files"))) {
      if (name.startsWith("a3")) await Bun.file(dir.join("predictions.db-files", name)).delete();
    }
    const next = await open(dir);
    const bodies = (await leftOf(next)).map((left) => [left.id, left.body]);
    expect(bodies).toEqual([
      ["a1", body],
      ["a2", '["é"]'],
    ]);
    await next.flush();
    expect((await leftOf(next)).map(({ id }) => id)).toEqual(["a1", "a2"]);
    await next.close();
  });
});

describe("the thread of clients", () => {
  test("posts one message for all that is told in one turn, and of each prediction the last state", async () => {
    await using dir = await tempDir();
    const { store, posted, changes } = await openNoting(dir);
    const kept = Array.from({ length: 1000 }, (_, index) => store.create(requestOf(`a${index}`)));
    for (let index = 0; index < 500; index++) {
      store.begun(`a${index}`);
      if (index % 2 === 0) store.finish(endOf(`a${index}`));
    }
    await Promise.all(kept);
    expect(posted.map(({ type }) => type)).toEqual(["open", "write"]);
    expect(changes().map((line) => line[0])).toHaveLength(1000);
    expect(changes().filter((line) => line.startsWith("e "))).toHaveLength(250);
    await store.close();
    const next = await open(dir);
    expect(await leftOf(next)).toHaveLength(750);
    expect(next.retained.count).toBe(250);
    await next.close();
  });

  test("posts nothing of large bodies and outcomes", async () => {
    await using dir = await tempDir();
    const { store, posted } = await openNoting(dir);
    const body = new Uint8Array(60_000_000).fill(0x20);
    await store.create(requestOf("a1", { body }));
    await store.create(requestOf("a2"));
    const end = largeEndOf("a2", 10_000_000);
    store.finish(end);
    await store.flush();
    expect(JSON.stringify(posted).length).toBeLessThan(5000);
    await store.close();
    const next = await open(dir);
    expect(asText(await next.get("a2"))).toEqual(end);
    expect((await leftOf(next))[0]?.body.length).toBe(60_000_000);
    await next.close();
  }, 120_000);

  test("keeps what it need not write: retention has dropped it by then", async () => {
    await using dir = await tempDir();
    const { store, changes } = await openNoting(dir, { retention: { ...keepAll, maxCount: 10 } });
    for (let index = 0; index < 1000; index++) store.finish(endOf(`a${index}`));
    await store.flush();
    expect(changes().map((line) => line.split(" ")[1])).toEqual(Array.from({ length: 10 }, (_, i) => `a${990 + i}`));
    expect(store.retained.count).toBe(10);
    await store.close();
  });
});

test("as many as come in a second are kept where no count is given", async () => {
  await using dir = await tempDir();
  const store = await open(dir, { retention: { ...keepAll, maxCount: Infinity } });
  for (let index = 0; index < 12_000; index++) store.finish(endOf(`a${index}`));
  await store.flush();
  await store.close();
  const next = await open(dir, { retention: { ...keepAll, maxCount: Infinity } });
  expect(next.retained.count).toBe(12_000);
  expect(await next.get("a0")).toEqual(endOf("a0"));
  await next.close();
});

test("outcomes that were told with the answer lie hundreds to a row, and go by count with the oldest of it", async () => {
  await using dir = await tempDir();
  const retention = { ...keepAll, maxCount: 2000 };
  const store = await open(dir, { retention });
  const ids = Array.from({ length: 2500 }, () => newId("0"));
  for (const [index, id] of ids.entries()) {
    store.finish(endOf(id));
    if (index % 500 === 499) await store.flush();
  }
  const { count } = store.retained;
  await store.close();
  expect(count).toBeGreaterThan(1900);
  expect(count).toBeLessThanOrEqual(2000);
  const database = new Database(dir.join("predictions.db"), { readonly: true });
  const rows = database.query<{ rows: number }, []>("SELECT count(*) rows FROM told").get()?.rows;
  database.close();
  expect(rows).toBeLessThanOrEqual(count / 40);
  const next = await open(dir, { retention });
  const found = await Promise.all(ids.map((id) => next.get(id)));
  expect(found).toEqual(ids.map((id, index) => (index < ids.length - count ? undefined : endOf(id))));
  await next.close();
});

describe("what retention does not allow is removed", () => {
  test("by count, with its files", async () => {
    await using dir = await tempDir();
    const store = await open(dir, { retention: { ...keepAll, maxCount: 2 } });
    for (let index = 0; index < 40; index++) {
      store.finish(largeEndOf(`a${index}`, 100_000));
      await store.flush();
    }
    expect(store.retained.count).toBe(2);
    expect(await readdir(dir.join("predictions.db-files"))).toHaveLength(2);
    await store.close();
    const next = await open(dir);
    const found = await Promise.all(["a37", "a38", "a39"].map(async (id) => (await next.get(id)) !== undefined));
    expect(found).toEqual([false, true, true]);
    await next.close();
  });

  test("by bytes, but for the newest", async () => {
    await using dir = await tempDir();
    const store = await open(dir, { retention: { ...keepAll, maxBytes: 10_000 } });
    for (const [id, bytes] of Object.entries({ a1: 4000, a2: 4000, a3: 4000 })) {
      store.finish(largeEndOf(id, bytes));
      await store.flush();
    }
    expect(store.retained.count).toBe(2);
    store.finish(largeEndOf("a4", 1_000_000));
    await store.flush();
    expect(store.retained.count).toBe(1);
    await store.close();
    const next = await open(dir);
    expect(await next.get("a3")).toBeUndefined();
    expect(await next.get("a4")).toBeDefined();
    await next.close();
  });

  test("in the order in which they ended, though the file of one takes far longer to write", async () => {
    await using dir = await tempDir();
    const store = await open(dir, { retention: { ...keepAll, maxCount: 2 } });
    store.finish(largeEndOf("a1", 30_000_000));
    store.finish(largeEndOf("a2", 100_000));
    await store.flush();
    store.finish(largeEndOf("a3", 100_000));
    await store.close();
    const next = await open(dir);
    expect(await next.get("a1")).toBeUndefined();
    expect(await next.get("a2")).toBeDefined();
    await next.close();
  });

  test("by age, in which a clock that is set counts for nothing while there is a process", async () => {
    await using dir = await tempDir();
    const day = 24 * 3600 * 1000;
    let wallMs = 100 * day;
    const clocked = { retention: { ...keepAll, maxAgeMs: day }, wallClock: () => wallMs };
    const store = await open(dir, clocked);
    store.finish(endOf("a1"));
    await store.create(requestOf("a2", { timeoutMs: day }));
    await store.flush();
    for (const jump of [-50 * day, 50 * day]) {
      wallMs += jump;
      store.finish(endOf(`a${wallMs}`));
      await store.flush();
    }
    const { retained } = store;
    expect(retained.count).toBe(3);
    await store.close();

    // Set back while there was no process: no time has passed.
    wallMs -= 50 * day;
    const second = await open(dir, clocked);
    expect(await second.get("a1")).toBeDefined();
    const [left] = await leftOf(second);
    expect(left?.leftMs).toBeGreaterThan(day / 2);
    second.finish(endOf("a3"));
    await second.close();

    // Hours that went by without a process are a part of the time.
    wallMs += 2 * day;
    const third = await open(dir, clocked);
    expect([await third.get("a1"), await third.get("a3")]).toEqual([undefined, undefined]);
    expect((await leftOf(third))[0]?.leftMs).toBeLessThan(0);
    await third.close();
  });

  test("so that the file stays as large as what it keeps, however much goes through it", async () => {
    await using dir = await tempDir();
    const store = await open(dir, { retention: { ...keepAll, maxCount: 100 } });
    const body = `["${"x".repeat(4000)}"]`;
    for (let round = 0; round < 60; round++) {
      const ids = Array.from({ length: 100 }, (_, index) => `a${round}-${index}`);
      await Promise.all(ids.map((id) => store.create(requestOf(id, { body }))));
      for (const id of ids) store.finish(largeEndOf(id, 4000));
    }
    await store.flush();
    const sizeOf = async (suffix: string) => (await stat(dir.join(`predictions.db${suffix}`))).size;
    // About 60 MB were written, and as much twice to the log.
    expect(await sizeOf("")).toBeLessThan(8_000_000);
    expect(await sizeOf("-wal")).toBeLessThan(32_000_000);
    await store.close();
    expect((await readdir(dir.path)).sort()).toEqual(["predictions.db", "predictions.db-files", "predictions.db-lock"]);
  }, 120_000);
});

describe("the request that a prediction came by", () => {
  test("is known to the next process", async () => {
    await using dir = await tempDir();
    const origin = { requestId: 'a "b" é\\', traceId: "4bf92f3577b34da6a3ce929d0e0e4736", spanId: undefined };
    const store = await open(dir);
    await store.create(requestOf("a1", { origin, body: "[語]" }));
    await store.create(requestOf("a2"));
    await store.close();
    const next = await open(dir);
    expect((await leftOf(next)).map(({ id, body, origin }) => ({ id, body, origin }))).toEqual([
      { id: "a1", body: "[語]", origin },
      { id: "a2", body: '["a2"]', origin: undefined },
    ]);
    await next.close();
  });

  test("is unknown in a file of an earlier release, which is read and written all the same", async () => {
    await using dir = await tempDir();
    const store = await open(dir);
    await store.create(requestOf("a1", { origin: { requestId: "a", traceId: undefined, spanId: undefined } }));
    await store.close();
    using database = new Database(dir.join("predictions.db"));
    database.run("ALTER TABLE unfinished DROP COLUMN origin");
    database.close();
    const next = await open(dir);
    await next.create(requestOf("a2", { origin: { requestId: "b", traceId: undefined, spanId: undefined } }));
    expect((await leftOf(next)).map(({ id, origin }) => [id, origin?.requestId])).toEqual([
      ["a1", undefined],
      ["a2", "b"],
    ]);
    await next.close();
  });
});

describe("whom to tell", () => {
  test("is the last that was kept, where an id is taken again, and nobody once it is forgotten", async () => {
    await using dir = await tempDir();
    const store = await open(dir);
    await Promise.all(["a1", "a2"].map((id) => store.webhooks.keep(id, "earlier")));
    store.webhooks.forget({ id: "a1", createdAtMs: 0 });
    await Promise.all(["a1", "a2"].map((id) => store.webhooks.keep(id, "new")));
    const kept = store.webhooks.keep("a3", "new");
    store.webhooks.forget({ id: "a3", createdAtMs: 0 });
    await kept;
    await store.close();
    const next = await open(dir);
    const left = await next.webhooks.left(everyone);
    expect(left.map(({ id, webhook }) => `${id} ${webhook}`).sort()).toEqual(["a1 new", "a2 new"]);
    await next.close();
  });
});
