/**
 * Retention in the database of predictions: how many ended predictions it keeps, the size of its file, and the order
 * of eviction.
 */
import { describe, expect, test } from "bun:test";
import { readdir, stat } from "node:fs/promises";
import { tempDir } from "./helpers/fixture.ts";
import { endOf, keepAll, largeEndOf, requestOf } from "./helpers/predictions.ts";
import { until } from "./helpers/running.ts";
import { endIn, leftOf, open } from "./helpers/sqlite.ts";

describe("ended predictions above the limits are removed", () => {
  test("by bytes, except the newest", async () => {
    await using dir = await tempDir();
    const store = await open(dir, { retention: { ...keepAll, maxBytes: 10_000 } });
    for (const [id, bytes] of Object.entries({ a1: 4000, a2: 4000, a3: 4000 })) {
      await endIn(store, largeEndOf(id, bytes));
      await store.flush();
    }
    expect(store.retained.count).toBe(2);
    await endIn(store, largeEndOf("a4", 1_000_000));
    await store.flush();
    expect(store.retained.count).toBe(1);
    await store.close();
    await using next = await open(dir);
    expect(await next.read("a3")).toBeUndefined();
    expect(await next.read("a4")).toBeDefined();
  });

  test("by age, measured with a clock that ignores changes of the system time", async () => {
    await using dir = await tempDir();
    const day = 24 * 3600 * 1000;
    let wallMs = 100 * day;
    const clocked = { retention: { ...keepAll, maxAgeMs: day }, wallClock: () => wallMs };
    const store = await open(dir, clocked);
    await endIn(store, endOf("a1"));
    await store.accept(requestOf("a2", { timeoutMs: day }));
    await store.flush();
    for (const jump of [-50 * day, 50 * day]) {
      wallMs += jump;
      await endIn(store, endOf(`a${wallMs}`));
      await store.flush();
    }
    const { retained } = store;
    expect(retained.count).toBe(3);
    await store.close();

    // The system clock was set back while no process ran, so the age has not grown.
    wallMs -= 50 * day;
    const second = await open(dir, clocked);
    expect(await second.read("a1")).toBeDefined();
    const [left] = await leftOf(second);
    expect(left?.deadlineMs).toBeGreaterThan(performance.now() + day / 2);
    await endIn(second, endOf("a3"));
    await second.close();

    // Time without a process counts towards the age, since the system clock went forward.
    wallMs += 2 * day;
    await using third = await open(dir, clocked);
    expect([await third.read("a1"), await third.read("a3")]).toEqual([undefined, undefined]);
    expect((await leftOf(third))[0]?.deadlineMs).toBeLessThan(performance.now());
  });

  test("by age, also while no new predictions arrive, and then they no longer count", async () => {
    await using dir = await tempDir();
    await using store = await open(dir, { retention: { ...keepAll, maxAgeMs: 200 } });
    await store.accept(requestOf("a1"));
    store.finish(endOf("a1"), true);
    await store.flush();
    await until(() => store.retained.count === 0);
    expect(store.retained).toEqual({ count: 0, bytes: 0 });
  });

  test("by age, and a client may then use an id again, even if its outcome is still in the file", async () => {
    await using dir = await tempDir();
    let wallMs = 0;
    const clocked = { retention: { ...keepAll, maxAgeMs: 60_000 }, wallClock: () => wallMs, role: "member" } as const;
    // More predictions than the next commit evicts.
    const ids = Array.from({ length: 60 }, (_, index) => `chosen-${index}`);
    const id = ids.at(-1) ?? "";
    const again = endOf(id, { outcome: { status: "success", members: '"outputs":["again"]' } });
    {
      await using store = await open(dir, clocked);
      await endIn(store, ...ids.map((each) => endOf(each)));
      await store.flush();
      await endIn(store, again);
      expect(await store.read(id)).toEqual(endOf(id));
    }
    wallMs = 120_000;
    await using store = await open(dir, clocked);
    await store.accept(requestOf(id));
    expect(await store.read(id)).toMatchObject({ outcome: undefined });
    store.finish(again, true);
    expect(await store.read(id)).toEqual(again);
    await until(() => store.retained.count === 1);
  });

  test("so that the file does not grow, however many predictions pass", async () => {
    await using dir = await tempDir();
    const store = await open(dir, { retention: { ...keepAll, maxBytes: 500_000 } });
    const body = `["${"x".repeat(4000)}"]`;
    for (let round = 0; round < 60; round++) {
      const ids = Array.from({ length: 100 }, (_, index) => `a${round}-${index}`);
      await Promise.all(ids.map((id) => store.accept(requestOf(id, { body }))));
      for (const id of ids) store.finish(largeEndOf(id, 4000), true);
    }
    await store.flush();
    const sizeOf = async (suffix: string) => (await stat(dir.join(`predictions.db${suffix}`))).size;
    // All rounds together have about 50 MB of bodies and outcomes.
    expect(await sizeOf("")).toBeLessThan(8_000_000);
    expect(await sizeOf("-wal")).toBeLessThan(32_000_000);
    await store.close();
    expect((await readdir(dir.path)).sort()).toEqual(["predictions.db", "predictions.db-lock"]);
  }, 120_000);
});
