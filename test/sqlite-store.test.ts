/** The database stores predictions for the process that runs them and for the next. */
import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { readdir, stat } from "node:fs/promises";
import { lockDatabase } from "../src/predictions/sqlite/server-database.ts";
import type { SqliteStore } from "../src/predictions/sqlite/sqlite-store.ts";
import { tempDir } from "./helpers/fixture.ts";
import { asText, endOf, keepAll, largeEndOf, requestOf } from "./helpers/predictions.ts";
import { endIn, leftOf, open } from "./helpers/sqlite.ts";

test("with --take-over, a server gets the file when the earlier one has closed it, or stops waiting when it ends", async () => {
  await using dir = await tempDir();
  const path = dir.join("predictions.db");
  const older = await open(dir);
  const ending = new AbortController();
  const ended = lockDatabase(path, ending.signal);
  const newer = lockDatabase(path, new AbortController().signal);
  ending.abort(new Error("the new server ends"));
  expect(await ended.then(() => "locked", String)).toContain("the new server ends");
  expect(await Promise.race([newer, "waits"])).toBe("waits");
  await older.close();
  (await newer).release();
});

describe("a stored prediction", () => {
  test("is read unchanged, by its process and by the next", async () => {
    await using dir = await tempDir();
    const odd = endOf("a1", {
      kind: "demo",
      startedAtMs: undefined,
      outcome: { status: "failed", members: '"error_message":"語 \\u0000 😀"' },
      logs: "a\0b\né 😀",
    });
    const large = { ...largeEndOf("a2", 100_000), logs: "large, too: é" };
    const store = await open(dir, { sync: "full" });
    await endIn(store, odd, large);
    expect([await store.read("a1"), asText(await store.read("a2"))]).toEqual([odd, large]);
    await store.close();
    await using next = await open(dir, { sync: "full" });
    expect([await next.read("a1"), asText(await next.read("a2")), await next.read("a3")]).toEqual([
      odd,
      large,
      undefined,
    ]);
    expect(next.retained.count).toBe(2);
  });

  test.each(["small", "large"])("is reported once it is written (%s)", async (size) => {
    await using dir = await tempDir();
    await using store = await open(dir);
    await store.accept(requestOf("a1"));
    const record = size === "small" ? endOf("a1") : largeEndOf("a1", 100_000);
    store.finish(record, true);
    expect(asText(await store.read("a1"))).toEqual(record);
    using database = new Database(dir.join("predictions.db"), { readonly: true });
    expect(database.query("SELECT id FROM ended").all()).toEqual([{ id: "a1" }]);
  });

  test("keeps its first outcome, also if two processes report one", async () => {
    await using dir = await tempDir();
    const [main, member] = [await open(dir), await open(dir, { role: "member" })];
    await main.accept(requestOf("a1"));
    const [first, second] = [largeEndOf("a1", 100_000), largeEndOf("a1", 200_000)];
    main.finish(first, true);
    main.finish(second, true);
    await main.flush();
    await endIn(member, second);
    await member.flush();
    expect([await main.read("a1"), await member.read("a1")].map(asText)).toEqual([first, first]);
    await member.close();
    await main.close();
  });

  test("is private to the user", async () => {
    await using dir = await tempDir();
    await using store = await open(dir);
    await store.accept(requestOf("a1", { body: `["${"x".repeat(100_000)}"]` }));
    const names = await readdir(dir.path);
    const modes = await Promise.all(names.map(async (name) => (await stat(dir.join(name))).mode & 0o777));
    expect(new Set(modes)).toEqual(new Set([0o600]));
  });
});

describe("an unfinished prediction", () => {
  test("is pending or running for another process", async () => {
    await using dir = await tempDir();
    const [main, member] = [await open(dir), await open(dir, { role: "member" })];
    await Promise.all([main.accept(requestOf("a1")), main.accept(requestOf("a2", { kind: "demo", count: 3 }))]);
    main.processing("a2");
    await main.flush();
    expect(await member.read("a1")).toMatchObject({ startedAtMs: undefined, outcome: undefined, itemsDone: 0 });
    expect(await member.read("a2")).toMatchObject({ kind: "demo", count: 3, startedAtMs: expect.any(Number) });
    await member.close();
    await main.close();
  });

  test("is taken over by the next process, oldest first, with the number of deaths that it has seen", async () => {
    await using dir = await tempDir();
    const deaths = async (act: (store: SqliteStore) => void | Promise<void>) => {
      const store = await open(dir);
      const left = (await leftOf(store)).map((request) => `${request.id} ${request.deaths} ${request.body}`);
      await act(store);
      await store.close();
      return left;
    };
    await deaths(async (store) => {
      for (const id of ["a3", "a1", "a2"]) await store.accept(requestOf(id));
      store.processing("a1");
    });
    expect(await deaths((store) => store.processing("a1"))).toEqual(['a3 0 ["a3"]', 'a1 1 ["a1"]', 'a2 0 ["a2"]']);
    expect(await deaths((store) => store.finish(endOf("a1"), true))).toEqual([
      'a3 0 ["a3"]',
      'a1 2 ["a1"]',
      'a2 0 ["a2"]',
    ]);
    expect(await deaths(() => {})).toEqual(['a3 0 ["a3"]', 'a2 0 ["a2"]']);
  });

  test("has seen no death if its process stopped in order", async () => {
    await using dir = await tempDir();
    for (const isWritten of [true, false]) {
      await using store = await open(dir);
      if (isWritten) await store.accept(requestOf("a1"));
      else expect(await leftOf(store)).toMatchObject([{ id: "a1", deaths: 0 }]);
      store.processing("a1");
      if (isWritten) await store.flush();
      await store.release(["a1"]);
    }
    await using store = await open(dir);
    expect(await leftOf(store)).toMatchObject([{ id: "a1", deaths: 0 }]);
  });

  test("is left to the process that owns it, as long as that runs", async () => {
    await using dir = await tempDir();
    await using store = await open(dir);
    for (const id of ["a1", "b1", "c1"]) await store.accept(requestOf(id));
    await using member = await open(dir, { role: "member" });
    expect((await leftOf(member, (owner) => owner !== "a")).map(({ id }) => id)).toEqual(["b1", "c1"]);
    expect(await leftOf(member, () => false)).toEqual([]);
  });

  test("is taken over with its body, of any size and form", async () => {
    await using dir = await tempDir();
    const store = await open(dir);
    const encode = (text: string) => new TextEncoder().encode(text);
    const large = encode(JSON.stringify(["é", "x".repeat(20_000_000)]));
    const bodies = { a1: large, a2: encode('["é"]'), a3: `["${"é".repeat(100_000)}"]` };
    await Promise.all(Object.entries(bodies).map(([id, body]) => store.accept(requestOf(id, { body }))));
    await store.close();
    await using next = await open(dir);
    const left = Object.fromEntries((await leftOf(next)).map(({ id, body }) => [id, body]));
    expect(Bun.deepEquals(left, bodies)).toBe(true);
  });
});

test("a large outcome and body do not block the event loop while they are written", async () => {
  await using dir = await tempDir();
  await using store = await open(dir);
  await endIn(store, endOf("a1"));
  let turns = 0;
  let isCounting = true;
  const count = () => {
    turns += 1;
    if (isCounting) setImmediate(count);
  };
  const stored = store.accept(requestOf("a2", { body: new Uint8Array(60_000_000).fill(0x20) }));
  count();
  await stored;
  isCounting = false;
  expect(turns).toBeGreaterThan(3);
});

test("many changes of one turn of the event loop are all stored", async () => {
  await using dir = await tempDir();
  const store = await open(dir);
  const kept = Array.from({ length: 5000 }, (_, index) => store.accept(requestOf(`a${index}`)));
  for (let index = 0; index < 500; index++) {
    store.processing(`a${index}`);
    if (index % 2 === 0) store.finish(endOf(`a${index}`), true);
  }
  await Promise.all(kept);
  await store.close();
  await using next = await open(dir);
  expect(await leftOf(next)).toHaveLength(4750);
  expect(next.retained.count).toBe(250);
});

test("the origin of a prediction is known to the next process", async () => {
  await using dir = await tempDir();
  const origin = { requestId: 'a "b" é\\', traceId: "4bf92f3577b34da6a3ce929d0e0e4736", spanId: undefined };
  const store = await open(dir);
  // The origin of a request is the whole HTTP request, of which stores keep only the facts.
  await store.accept(requestOf("a1", { origin: Object.assign({ headers: "secret" }, origin), body: "[語]" }));
  await store.accept(requestOf("a2"));
  await store.close();
  await using next = await open(dir);
  expect((await leftOf(next)).map(({ id, body, origin }) => ({ id, body, origin }))).toEqual([
    { id: "a1", body: "[語]", origin },
    { id: "a2", body: '["a2"]', origin: undefined },
  ]);
});

test("the outcome of a client that waited stays in memory within the limits of retention, and is in no file", async () => {
  await using dir = await tempDir();
  const store = await open(dir, { retention: { ...keepAll, maxBytes: 102_000 } });
  const records = [endOf("a1"), endOf("a2"), largeEndOf("a3", 100_000)];
  for (const record of records) store.finish(record, false);
  const found = await Promise.all(records.map(({ id }) => store.read(id)));
  expect(found).toEqual([undefined, ...records.slice(1)]);
  expect(store.retained.count).toBe(2);
  await store.close();
  await using next = await open(dir);
  expect(next.retained.count).toBe(0);
});

test("the webhook of a prediction is there for the next process, before and after the end, until it is removed", async () => {
  await using dir = await tempDir();
  const webhook = { url: "https://example.org/" };
  const store = await open(dir);
  await Promise.all(["a1", "a2", "a3"].map((id) => store.accept(requestOf(id, { webhook }))));
  for (const id of ["a1", "a2"]) store.finish(endOf(id), true);
  store.webhooks.remove({ id: "a1", createdAtMs: 1000 });
  store.webhooks.remove({ id: "a2", createdAtMs: 999 });
  await store.close();
  await using next = await open(dir);
  const left: unknown[] = [];
  const ended = (...each: unknown[]) => left.push(each);
  await next.webhooks.deliver({ ended, predictions: [], hasRoom: true }, () => true);
  expect(left).toEqual([[{ id: "a2", createdAtMs: 1000 }, webhook]]);
  expect(await leftOf(next)).toMatchObject([{ id: "a3", webhook }]);
});
