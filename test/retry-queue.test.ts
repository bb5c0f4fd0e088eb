/** Entries for Redis wait in memory, and are sent once Redis is available. */
import { describe, expect, test } from "bun:test";
import { type RetryEntry, RetryQueue } from "../src/predictions/redis/retry-queue.ts";

interface Entry extends RetryEntry {
  readonly id: string;
}

const entry = (id: string, expiresMs = Infinity, bytes = 1): Entry => ({ id, expiresMs, bytes });

describe("a retry queue", () => {
  test("sends the entries of one turn of the event loop together, one batch at a time", async () => {
    const calls: { readonly ids: string[]; readonly end: () => void }[] = [];
    const queue = new RetryQueue<Entry>({
      send: (batch) => {
        const { promise, resolve } = Promise.withResolvers<void>();
        calls.push({ ids: batch.map(({ id }) => id), end: resolve });
        return promise;
      },
    });
    for (let i = 0; i < 150; i++) queue.add(entry(`p${i}`));
    const flushed = queue.flush();
    for (let i = 0; i < 3; i++) {
      while (calls.length === i) await new Promise((resolve) => setImmediate(resolve));
      expect(calls).toHaveLength(i + 1);
      calls[i]?.end();
    }
    await flushed;
    expect(calls.map(({ ids }) => ids.length)).toEqual([64, 64, 22]);
    expect(new Set(calls.flatMap(({ ids }) => ids)).size).toBe(150);
  });

  test("sends failed entries again, behind other entries, until they expire", async () => {
    const sent: string[] = [];
    const settled: string[] = [];
    const queue = new RetryQueue<Entry>({
      send: async ([first]) => {
        sent.push(first?.id ?? "");
        if (first?.id === "expired" || sent.length === 1) throw new Error("unavailable");
      },
      onSettled: ({ id }) => settled.push(id),
      onEmpty: () => settled.push("empty"),
    });
    const size = 2 ** 20;
    for (const each of [entry("a", Infinity, size), entry("expired", 0, size), entry("b", Infinity, size)])
      queue.add(each);
    await queue.flush();
    expect(sent).toEqual(["a", "expired", "b", "a"]);
    expect(settled).toEqual(["expired", "b", "a", "empty"]);
  });

  test("has a limit", async () => {
    const sent: string[] = [];
    const queue = new RetryQueue<Entry>({
      send: async (batch) => void sent.push(...batch.map(({ id }) => id)),
      maxCount: 2,
    });
    for (const id of ["a", "b", "c"]) queue.add(entry(id));
    await queue.flush();
    expect(sent).toEqual(["a", "b"]);
  });
});
