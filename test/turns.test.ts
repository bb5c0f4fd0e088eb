/** Which prediction gets the next turn, in particular under overload, on a simulated clock. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { ClientTurns } from "../src/pipeline/client-turns.ts";
import { ReadyInputs } from "../src/pipeline/inputs/input-list.ts";
import { ItemList } from "../src/pipeline/item-list.ts";
import type { Sender } from "../src/pipeline/quarantine.ts";
import { Turns } from "../src/pipeline/turns.ts";

const TURN_MS = 10;
/** Milliseconds from the start of an input to its output. */
const PIPELINE_MS = 100;
const SECONDS = 15;

interface Prediction {
  readonly list: ItemList;
  readonly bornMs: number;
}

/** Simulates a server that starts an input every 10 ms, and clients that leave when they have waited too long. */
class Server {
  readonly turns: Turns;
  readonly answeredAfterMs: number[] = [];
  polledTurns = 0;
  nowMs = 0;
  readonly #waiting = new Map<ItemList, Prediction>();

  constructor(pollShare = 0.1) {
    const times = { meanMs: PIPELINE_MS };
    this.turns = new Turns({ pollShare, batchItems: () => 4, times, itemsMs: (items) => items * TURN_MS });
  }

  add(count: number, isWaitedFor: boolean, client?: Sender): ItemList {
    const receiver = { succeeded: () => {}, failed: () => {} };
    const list = new ItemList(new ReadyInputs(Array(count).fill(0)), receiver, { isWaitedFor, client });
    if (isWaitedFor) this.#waiting.set(list, { list, bornMs: this.nowMs });
    this.turns.add(list);
    return list;
  }

  leave(list: ItemList): void {
    this.turns.leave(list);
    this.#waiting.delete(list);
  }

  /** Advances the time by one millisecond. Clients that have waited for `patienceMs` leave. */
  pass(patienceMs = Infinity): void {
    this.nowMs += 1;
    for (const { list, bornMs } of this.#waiting.values()) {
      if (bornMs + patienceMs > this.nowMs) break;
      this.leave(list);
    }
    if (this.nowMs % TURN_MS !== 0) return;
    this.turns.look(this.nowMs);
    const list = this.turns.next();
    if (list === undefined) return;
    this.turns.take(list);
    list.next += 1;
    if (!list.isWaitedFor) this.polledTurns += 1;
    if (list.next < list.count) {
      this.turns.add(list);
      return;
    }
    const { bornMs } = this.#waiting.get(list) ?? { bornMs: this.nowMs };
    this.#waiting.delete(list);
    const afterMs = this.nowMs + PIPELINE_MS - bornMs;
    if (list.isWaitedFor && afterMs < patienceMs) this.answeredAfterMs.push(afterMs);
  }

  /** Lets the oldest clients leave. */
  leaveOldest(count: number): void {
    for (const { list } of [...this.#waiting.values()].slice(0, count)) this.leave(list);
    this.turns.look(this.nowMs);
  }

  /**
   * Adds `perSecond` predictions a second for 15 seconds. Their clients leave after three seconds.
   * @returns the inputs that were answered in time, as a share of the capacity
   */
  overload(perSecond: number, count = 1): number {
    let due = 0;
    for (const endMs = this.nowMs + 1000 * SECONDS; this.nowMs < endMs; this.pass(3000)) {
      for (due += perSecond / 1000; due >= 1; due -= 1) this.add(count, true);
    }
    return (count * this.answeredAfterMs.length) / ((1000 * SECONDS) / TURN_MS);
  }
}

test.each([[200], [1000]])(
  "of %d predictions a second for a device that does 100, nearly 100 are answered in time",
  (perSecond) => {
    expect(new Server().overload(perSecond)).toBeGreaterThan(0.95);
  },
);

test("predictions with several inputs finish once they have started", () => {
  const server = new Server();
  server.overload(250, 4);
  server.answeredAfterMs.length = 0;
  expect(server.overload(250, 4)).toBeGreaterThan(0.9);
});

test("clients that do not leave are served in order, however long the queue is", () => {
  const server = new Server();
  for (let i = 0; i < 2000; i++) server.add(1, true);
  while (server.turns.size > 0) server.pass();
  expect(server.answeredAfterMs).toEqual(server.answeredAfterMs.toSorted((a, b) => a - b));
  expect(server.answeredAfterMs.length).toBe(2000);
});

test("a short queue is served in order even if a client leaves", () => {
  const server = new Server();
  const lists = Array.from({ length: 30 }, () => server.add(1, true));
  if (lists[29] !== undefined) server.leave(lists[29]);
  while (server.turns.size > 0) server.pass();
  expect(server.answeredAfterMs.length).toBe(29);
});

/**
 * Keeps 200 predictions with clients in the server: each waits for two seconds. After an answer a new prediction is
 * added.
 */
function keepBusy(server: Server, ms: number, perMs?: (ms: number) => void): void {
  for (let passed = 0; passed < ms; passed++) {
    for (let missing = 200 - server.turns.size; missing > 0; missing--) server.add(1, true);
    server.pass();
    perMs?.(passed);
  }
}

test("a few clients that leave a long queue do not change the order of the others", () => {
  const server = new Server();
  keepBusy(server, 20_000, (ms) => {
    if (ms % 500 === 499) server.leaveOldest(1);
  });
  expect(Math.max(...server.answeredAfterMs)).toBeLessThan(200 * TURN_MS + PIPELINE_MS + 1);
});

test("after all clients have left at once, the next clients are served in order", () => {
  const server = new Server();
  keepBusy(server, 10_000);
  server.leaveOldest(200);
  server.answeredAfterMs.length = 0;
  server.nowMs += 1000;
  for (let i = 0; i < 100; i++) server.add(1, true);
  while (server.turns.size > 0) server.pass();
  expect(server.answeredAfterMs.length).toBe(100);
  expect(server.answeredAfterMs).toEqual(server.answeredAfterMs.toSorted((a, b) => a - b));
});

test.each([[0.1], [0.5]])(
  "predictions without a waiting client are not refused, and keep a share of %d of the turns",
  (share) => {
    const server = new Server(share);
    server.overload(1000);
    const before = server.polledTurns;
    for (let i = 0; i < 1000; i++) server.add(1, false);
    server.overload(1000);
    expect((server.polledTurns - before) / ((1000 * SECONDS) / TURN_MS)).toBeCloseTo(share, 1);
    // Predictions with a waiting client get all turns of the first overload, and the remaining turns of the second.
    expect(server.answeredAfterMs.length).toBeGreaterThan((2 - share) * 0.9 * ((1000 * SECONDS) / TURN_MS));
  },
);

test("predictions without a waiting client keep their share after a time in which they had all turns", () => {
  const server = new Server();
  server.overload(1000);
  for (let i = 0; i < 4000; i++) server.add(1, false);
  for (let ms = 0; ms < 10_000; ms++) server.pass(3000);
  const before = server.polledTurns;
  expect(before).toBeGreaterThan(700);
  server.overload(1000);
  expect((server.polledTurns - before) / ((1000 * SECONDS) / TURN_MS)).toBeCloseTo(0.1, 1);
});

test("once clients have left, waiting clients go first, and continue to, despite a long queue of predictions without one", () => {
  const server = new Server();
  for (let i = 0; i < 2000; i++) server.add(1, false);
  // `overload` returns a share of the capacity of 100 a second: of 20 predictions a second, 15 are answered in time.
  expect(server.overload(20)).toBeGreaterThan(0.15);
});

test("a large prediction that has started does not delay the start of small ones", () => {
  const server = new Server();
  server.overload(1000);
  server.add(10_000, true);
  server.answeredAfterMs.length = 0;
  expect(server.overload(1000)).toBeGreaterThan(0.45);
});

test("once the queue is empty, all predictions are served in order again", () => {
  const server = new Server();
  server.overload(1000);
  while (server.turns.size > 0) server.pass();
  server.pass();
  for (let i = 0; i < 2000 + TURN_MS; i++) server.pass();
  server.answeredAfterMs.length = 0;
  for (let i = 0; i < 300; i++) server.add(1, true);
  while (server.turns.size > 0) server.pass();
  expect(server.answeredAfterMs).toEqual(server.answeredAfterMs.toSorted((a, b) => a - b));
});

describe("a client with one prediction, beside a client with 1,000 predictions,", () => {
  const few: Sender = { address: "10.0.0.2", name: "few" };
  const kinds: readonly (readonly [name: string, many: (i: number) => Sender, count: number, isWaitedFor: boolean])[] =
    [
      ["that it waits for", () => ({ address: "10.0.0.1", name: "many" }), 1, true],
      ["that it comes back for", () => ({ address: "10.0.0.1", name: "many" }), 1, false],
      ["of several inputs", () => ({ address: "10.0.0.1", name: "many" }), 20, true],
      ["of the same proxy", () => ({ address: few.address, name: "many" }), 1, true],
      ["with a new name each", (i) => ({ address: "10.0.0.1", name: `many ${i}` }), 1, true],
    ];

  test.each(kinds)("%s is served after at most three turns", (_, many, count, isWaitedFor) => {
    const server = new Server();
    for (let i = 0; i < 1000; i++) server.add(count, isWaitedFor, many(i));
    for (let i = 0; i < 10; i++) {
      for (let turns = 0; turns < 20 * TURN_MS; turns++) server.pass();
      server.answeredAfterMs.length = 0;
      expect(server.turns.waitMs(server.nowMs, few)).toBeLessThanOrEqual(PIPELINE_MS + 4 * TURN_MS);
      const list = server.add(1, true, few);
      // The other clients may have two turns before this list: one for a running prediction, one for a new prediction.
      for (let turns = 0; turns < 3 * TURN_MS; turns++) server.pass();
      expect(list?.next).toBe(1);
    }
  });
});

test("if one client causes an overload, predictions of another client are accepted and answered, and the first client gets the rest", () => {
  const server = new Server();
  server.overload(1000);
  const few = { address: "10.0.0.2", name: "few" };
  let answered = 0;
  for (let i = 0; i < 1000; i++) {
    const list = server.add(1, true, few);
    for (let ms = 0; ms < 4 * TURN_MS; ms++) {
      server.add(1, true, { address: "10.0.0.1", name: "many" });
      server.pass(3000);
    }
    answered += list?.next ?? 0;
  }
  expect(answered).toBe(1000);
  server.answeredAfterMs.length = 0;
  expect(server.overload(1000)).toBeGreaterThan(0.95);
});

test("an API key with share 3 gets three turns for each turn of another client", () => {
  const server = new Server();
  const key: Sender = { address: "key a", name: "1", share: 3 };
  const other: Sender = { address: "10.0.0.2", name: "1" };
  const lists = new Map<ItemList | undefined, string>();
  for (let i = 0; i < 12; i++) lists.set(server.add(1, true, key), "key");
  for (let i = 0; i < 12; i++) lists.set(server.add(1, true, other), "other");
  const order: (string | undefined)[] = [];
  for (let list = server.turns.next(); list !== undefined; list = server.turns.next()) {
    server.turns.take(list);
    order.push(lists.get(list));
  }
  expect(order.slice(0, 8)).toEqual(["key", "key", "key", "other", "key", "key", "key", "other"]);
  expect(order.slice(16)).toEqual(Array(8).fill("other"));
});

test("one prediction with many inputs of a key with share 3 gets three turns for each turn of another client", () => {
  let number = 0;
  const turns = new ClientTurns(() => ++number);
  const listOf = (client: Sender) => new ItemList(new ReadyInputs([0]), { succeeded() {}, failed() {} }, { client });
  const [key, other] = [listOf({ address: "key a", name: "1", share: 3 }), listOf({ address: "10.0.0.2", name: "1" })];
  turns.add(key);
  turns.add(other);
  let order = "";
  for (let i = 0; i < 9; i++) {
    const { first } = turns;
    if (first === undefined) break;
    turns.rotate(first);
    order += first === key ? "k" : "o";
  }
  expect(order).toBe("kkkokkkok");
});

test("each list that is added gets one turn or is deleted, in any order", () => {
  const step = fc.record({
    does: fc.constantFrom("add", "add", "add", "first", "last", "delete"),
    address: fc.integer({ min: 0, max: 2 }),
    name: fc.integer({ min: 0, max: 2 }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      let number = 0;
      const turns = new ClientTurns(() => ++number);
      const waiting: ItemList[] = [];
      const leave = (list: ItemList | undefined, left: boolean | undefined) => {
        expect(left).toBe(true);
        expect(waiting.includes(list as ItemList)).toBe(true);
        waiting.splice(waiting.indexOf(list as ItemList), 1);
      };
      for (const { does, address, name } of steps) {
        const client = address === 0 ? undefined : { address: `${address}`, name: `${name}` };
        if (does === "add") {
          const list = new ItemList(new ReadyInputs([0]), { succeeded() {}, failed() {} }, { client });
          turns.add(list);
          waiting.push(list);
        } else if (waiting.length > 0) {
          const list = does === "delete" ? waiting[name % waiting.length] : turns[does];
          leave(list, list && (does === "delete" ? turns.delete(list) : turns.take(list, does === "last")));
        }
        expect(turns.size).toBe(waiting.length);
        expect([...turns].toSorted((a, b) => a.turn - b.turn)).toEqual(waiting);
        expect(turns.ahead(client)).toBeLessThanOrEqual(waiting.length);
      }
    }),
  );
});
