/** The account of all bytes that a server holds for its clients (--max-memory). */
import { edenGC, heapSize } from "bun:jsc";
import { describe, expect, test } from "bun:test";
import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { availableCores, memoryLimit } from "../src/machine/control-groups.ts";
import { SharedCounters } from "../src/machine/processes/shared-counters.ts";
import { MemoryAccount } from "../src/pipeline/memory/memory-account.ts";
import { MemoryStore } from "../src/predictions/memory-store.ts";
import type { EndedRecord } from "../src/predictions/record.ts";
import { tempDir } from "./helpers/fixture.ts";

const { signal: inTurn } = new AbortController();

describe("memory of requests", () => {
  test("is granted if it fits, and released once, when its charge is disposed", () => {
    const account = new MemoryAccount({ maxBytes: 100 });
    const first = account.take("bodies", 30);
    expect(account.take("bodies", 21)).toBeUndefined();
    expect(account.used).toBe(30);
    first?.[Symbol.dispose]();
    first?.[Symbol.dispose]();
    first?.grow(5);
    expect(account.used).toBe(0);
  });

  test("is always granted to a request that is alone; retained results do not count, since they can be evicted", () => {
    const account = new MemoryAccount({ maxBytes: 100 });
    account.add("results", 90);
    const alone = account.take("bodies", 500);
    expect(alone?.bytes).toBe(500);
    expect(alone?.tryGrow(500)).toBe(true);
    expect(account.take("bodies", 1)).toBeUndefined();
  });

  test("leaves memory to finish accepted requests", () => {
    const account = new MemoryAccount({ maxBytes: 100 });
    account.take("bodies", 40);
    expect(account.take("bodies", 1)).toBeUndefined();
    expect([account.hasRoom("files", 10), account.hasRoom("files", 11)]).toEqual([true, false]);
    expect([account.hasRoom("tensors", 15), account.hasRoom("tensors", 16)]).toEqual([true, false]);
    expect([account.hasRoom("outputs", 25), account.hasRoom("outputs", 26)]).toEqual([true, false]);
  });

  test("is granted to small requests beside large ones", () => {
    const account = new MemoryAccount({ maxBytes: 25_600 });
    account.add("outputs", 12_800);
    expect([account.hasRoom("bodies", 50), account.hasRoom("bodies", 51)]).toEqual([true, false]);
    account.add("outputs", 12_000);
    expect([account.hasRoom("bodies", 3), account.hasRoom("bodies", 4)]).toEqual([true, false]);
    expect(account.hasRoom("tensors", 1)).toBe(false);
  });

  test("is granted to small outputs above the limit, because accepted requests must end", () => {
    const account = new MemoryAccount({ maxBytes: 51_200 });
    account.add("bodies", 60_000);
    expect([account.hasRoom("outputs", 12), account.hasRoom("outputs", 13)]).toEqual([true, false]);
    expect(account.hasRoom("bodies", 1)).toBe(false);
  });

  test("is refused to many small outputs in the end", () => {
    const account = new MemoryAccount({ maxBytes: 1e6 });
    account.add("bodies", 1e6);
    const outputs = account.add("outputs", 0);
    while (account.hasRoom("outputs", 10) && outputs.bytes < account.maxBytes) outputs.grow(10);
    expect(outputs.bytes).toBeLessThan(account.maxBytes / 16);
  });

  test("is refused while charges that have grown exceed the limit", () => {
    const account = new MemoryAccount({ maxBytes: 100 });
    using outputs = account.add("outputs", 10);
    outputs.grow(200);
    expect(account.isOver).toBe(true);
    expect(account.take("bodies", 1)).toBeUndefined();
    outputs.grow(-200);
    expect(account.take("bodies", 1)).toBeDefined();
  });
});

describe("files", () => {
  test("wait for memory in the order of their arrival", async () => {
    const account = new MemoryAccount({ maxBytes: 100 });
    const charges = Array.from({ length: 4 }, () => account.add("files", 0));
    const order: number[] = [];
    const sizes = [40, 45, 5, 5];
    const turns = charges.map((charge, i) =>
      account.takeInTurn(charge, sizes[i] ?? 0, inTurn).then(() => {
        order.push(i);
      }),
    );
    await turns[0];
    expect(charges.map(({ bytes }) => bytes)).toEqual([40, 0, 0, 0]);
    charges[0]?.[Symbol.dispose]();
    await turns[1];
    expect(charges.map(({ bytes }) => bytes)).toEqual([0, 45, 5, 0]);
    charges[1]?.[Symbol.dispose]();
    await Promise.all(turns);
    expect(order).toEqual([0, 1, 2, 3]);
  });

  test("of up to a quarter of the memory are granted one by one, whatever else holds memory", async () => {
    const account = new MemoryAccount({ maxBytes: 100 });
    account.add("bodies", 90);
    const [first, second] = [account.add("files", 0), account.add("files", 0)];
    await account.takeInTurn(first, 25, inTurn);
    const turn = account.takeInTurn(second, 25, inTurn);
    expect(second.bytes).toBe(0);
    first[Symbol.dispose]();
    await turn;
    expect(second.bytes).toBe(25);
  });

  test("that are abandoned give their turn to the next", async () => {
    const account = new MemoryAccount({ maxBytes: 100 });
    const [first, second, third] = [account.add("files", 0), account.add("files", 0), account.add("files", 0)];
    await account.takeInTurn(first, 40, inTurn);
    const abort = new AbortController();
    const given = account.takeInTurn(second, 45, abort.signal);
    const turn = account.takeInTurn(third, 5, inTurn);
    abort.abort(new Error("no longer"));
    await expect(given).rejects.toThrow("no longer");
    await turn;
    expect(account.parts.files).toBe(45);
  });
});

test("pictures have their own share of memory, which other parts do not use", () => {
  const account = new MemoryAccount({ maxBytes: 100 });
  account.add("tensors", 100);
  const { pictures } = account;
  expect([pictures.maxBytes, pictures.hasRoom(35), pictures.hasRoom(36)]).toEqual([35, true, false]);
  pictures.count(35);
  expect([pictures.hasRoom(1), account.used, account.parts.pictures]).toEqual([false, 135, 35]);
  account.count("tensors", -60);
  expect(account.hasRoom("tensors", 15)).toBe(true);
  expect([pictures.hasRoom(25), pictures.hasRoom(26)]).toEqual([true, false]);
});

describe("results", () => {
  const keepAll = { maxAgeMs: Infinity, maxBytes: 1e9 };
  const record = (id: string): EndedRecord => ({
    id,
    kind: "prediction",
    count: 1,
    itemsDone: 1,
    createdAtMs: 0,
    startedAtMs: 0,
    finishedAtMs: 1,
    outcome: { status: "success", members: "m".repeat(296) },
    logs: "",
  });

  test("are evicted above the limit, the oldest first and never the newest", () => {
    const account = new MemoryAccount({ maxBytes: 20_000 });
    const store = new MemoryStore(keepAll, { memory: account });
    for (const id of ["a", "b", "c"]) store.finish(record(id));
    expect(account.parts.results).toBe(3000);
    using outputs = account.add("outputs", 18_500);
    expect(["a", "b", "c"].map((id) => store.recall(id)?.id)).toEqual([undefined, undefined, "c"]);
    outputs.grow(5000);
    expect(store.recall("c")?.id).toBe("c");
    expect(account.parts.results).toBe(store.retained.bytes);
  });

  test("take at most a quarter of the memory", () => {
    const account = new MemoryAccount({ maxBytes: 8000 });
    const store = new MemoryStore(keepAll, { memory: account });
    for (const id of ["a", "b", "c"]) store.finish(record(id));
    expect(store.retained).toEqual({ count: 2, bytes: 2000 });
  });
});

const names = ["held", "pictures", "results"] as const;

/** An account that shares its counters with other processes. */
function accountOf(
  counters: SharedCounters<(typeof names)[number]>,
  { row, count, maxBytes }: { readonly row: number; readonly count: number; readonly maxBytes: number },
): MemoryAccount {
  const [held, pictures, results] = [
    counters.counter("held", row),
    counters.counter("pictures", row),
    counters.counter("results", row),
  ];
  return new MemoryAccount({ maxBytes, shared: { count, held, pictures, results } });
}

test("processes share one account, and learn of each other's releases", async () => {
  await using dir = await tempDir();
  const counters = SharedCounters.create({ path: join(dir.path, "counters"), names, rows: 2 });
  const [one, other] = [0, 1].map((row) => accountOf(counters, { row, count: 2, maxBytes: 100 }));
  if (one === undefined || other === undefined) throw new Error("there are two");
  const body = one.take("bodies", 50);
  expect(other.take("bodies", 1)).toBeUndefined();
  expect(other.used).toBe(50);
  expect(other.parts.bodies).toBe(0);
  const { promise, resolve } = Promise.withResolvers<void>();
  other.onceRoom(resolve);
  body?.[Symbol.dispose]();
  await promise;
  expect(other.take("bodies", 1)).toBeDefined();
});

test.each([1, 2])(
  "arrays that were released are collected before the limit is exceeded, with %d processes, even if they have survived young collections",
  async (count) => {
    const MB = 2 ** 20;
    await using dir = await tempDir();
    const account = accountOf(SharedCounters.create({ path: join(dir.path, "counters"), names, rows: count }), {
      row: 0,
      count,
      maxBytes: 256 * count * MB,
    });
    // Garbage of other tests would change the measurement.
    Bun.gc(true);
    const before = heapSize();
    // 20 arrays: a garbage collection may keep a few whose addresses are still on the stack.
    giveBack(account, { count: 20, bytes: 8 * MB });
    expect(heapSize() - before).toBeGreaterThan(150 * MB);
    account.add("files", 64 * count * MB);
    expect(heapSize() - before).toBeGreaterThan(150 * MB);
    account.add("files", 64 * count * MB);
    expect(heapSize() - before).toBeLessThan(50 * MB);
  },
);

/** Holds arrays until the collector counts them as old, then releases them. */
function giveBack(account: MemoryAccount, { count, bytes }: { readonly count: number; readonly bytes: number }): void {
  using _charge = account.add("files", count * bytes);
  const arrays = Array.from({ length: count }, () => new Uint8Array(bytes));
  edenGC();
  edenGC();
  expect(arrays.length).toBe(count);
}

describe("the memory of this machine", () => {
  const files = async (content: Readonly<Record<string, string>>) => {
    const dir = await tempDir();
    for (const [path, text] of Object.entries(content)) {
      await mkdir(dirname(join(dir.path, path)), { recursive: true });
      await Bun.write(join(dir.path, path), text);
    }
    return dir;
  };

  test("is limited by a control group, or by a parent of it", async () => {
    await using dir = await files({
      "proc/self/cgroup": "0::/a/b\n",
      "sys/fs/cgroup/a/b/memory.max": "max\n",
      "sys/fs/cgroup/a/memory.max": "4096\n",
    });
    expect(memoryLimit(dir.path, 10_000)).toBe(4096);
    expect(memoryLimit(dir.path, 1000)).toBe(1000);
  });

  test("is limited by a control group of version 1", async () => {
    await using dir = await files({
      "proc/self/cgroup": "5:cpu,memory:/docker/x\n0::/\n",
      "sys/fs/cgroup/memory/memory.limit_in_bytes": "2048\n",
    });
    expect(memoryLimit(dir.path, 10_000)).toBe(2048);
  });

  test.each([
    ["a parent's quota of version 2", "0::/a/b\n", { "a/b/cpu.max": "max 100000", "a/cpu.max": "150000 100000" }, 2],
    ["the least quota", "0::/a/b\n", { "a/b/cpu.max": "100000 100000", "a/cpu.max": "700000 100000" }, 1],
    ["a part of a core", "0::/a\n", { "a/cpu.max": "20000 100000" }, 1],
    [
      "a quota of version 1",
      "4:cpu,cpuacct:/x\n0::/\n",
      { "cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000" },
      3,
    ],
    [
      "no quota of version 1",
      "4:cpu,cpuacct:/\n",
      { "cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000" },
      8,
    ],
    ["a quota above the machine", "0::/\n", { "cpu.max": "9000000 100000" }, 8],
    ["no control group", "", {}, 8],
  ])("the cores of a process are limited by %s", async (_, group, quotas, cores) => {
    const inGroups = Object.entries(quotas).map(([path, text]) => [`sys/fs/cgroup/${path}`, `${text}\n`]);
    await using dir = await files({ "proc/self/cgroup": group, ...Object.fromEntries(inGroups) });
    expect(availableCores(dir.path, 8)).toBe(cores);
  });

  test("is the whole memory if there is no limit", async () => {
    await using dir = await tempDir();
    expect(memoryLimit(dir.path, 10_000)).toBe(10_000);
    expect(memoryLimit()).toBeGreaterThan(2 ** 20);
  });
});
