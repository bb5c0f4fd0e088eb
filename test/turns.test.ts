/** Which prediction gets the next turn, in particular under overload, on a simulated clock. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Sender } from "../src/pipeline/client.ts";
import { ReadyInputs } from "../src/pipeline/inputs/input-list.ts";
import { ItemList } from "../src/pipeline/item-list.ts";
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
  nowMs = 0;
  readonly #waiting = new Map<ItemList, Prediction>();

  constructor() {
    this.turns = new Turns({ batchItems: () => 4, itemsMs: (items) => items * TURN_MS });
  }

  /** @param isPatient whether the client stays until the end */
  add(count: number, isPatient = false, sender?: Sender): ItemList {
    const receiver = { succeeded: () => {}, failed: () => {} };
    const list = new ItemList(new ReadyInputs(Array(count).fill(0)), receiver, { sender });
    if (!isPatient) this.#waiting.set(list, { list, bornMs: this.nowMs });
    this.turns.enter(list);
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
    const list = this.turns.next(false);
    if (list === undefined) return;
    this.turns.take(list);
    list.next += 1;
    if (list.next < list.count) return;
    for (let i = 0; i < list.count; i++) list.succeeded(i, 0);
    this.turns.leave(list);
    const { bornMs } = this.#waiting.get(list) ?? { bornMs: -Infinity };
    this.#waiting.delete(list);
    const afterMs = this.nowMs + PIPELINE_MS - bornMs;
    if (afterMs < patienceMs) this.answeredAfterMs.push(afterMs);
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
      for (due += perSecond / 1000; due >= 1; due -= 1) this.add(count);
    }
    return (count * this.answeredAfterMs.length) / ((1000 * SECONDS) / TURN_MS);
  }
}

test("predictions with several inputs finish once they have started", () => {
  const server = new Server();
  server.overload(250, 4);
  server.answeredAfterMs.length = 0;
  expect(server.overload(250, 4)).toBeGreaterThan(0.9);
});

test("clients that do not leave are served in order, however long the queue is", () => {
  const server = new Server();
  for (let i = 0; i < 2000; i++) server.add(1);
  while (server.turns.size > 0) server.pass();
  expect(server.answeredAfterMs).toEqual(server.answeredAfterMs.toSorted((a, b) => a - b));
  expect(server.answeredAfterMs.length).toBe(2000);
});

/**
 * Keeps 200 predictions with clients in the server: each waits for two seconds. After an answer a new prediction is
 * added.
 */
function keepBusy(server: Server, ms: number, perMs?: (ms: number) => void): void {
  for (let passed = 0; passed < ms; passed++) {
    for (let missing = 200 - server.turns.size; missing > 0; missing--) server.add(1);
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

test("under overload, patient clients are answered, too, and impatient clients get most turns", () => {
  const server = new Server();
  server.overload(1000);
  const patient = Array.from({ length: 50 }, () => server.add(1, true));
  server.answeredAfterMs.length = 0;
  expect(server.overload(1000)).toBeGreaterThan(0.9);
  expect(patient.every((list) => list.next === 1)).toBe(true);
});

test("a patient client is not expected to wait for clients that will have left", () => {
  const server = new Server();
  server.overload(1000);
  expect(server.turns.size * TURN_MS).toBeGreaterThan(20_000);
  expect(server.turns.ahead(undefined) * TURN_MS).toBeLessThan(6000);
});

test("once clients have left, the newest requests go first, despite a long queue of patient clients", () => {
  const server = new Server();
  for (let i = 0; i < 2000; i++) server.add(1, true);
  // `overload` returns a share of the capacity of 100 a second: of 20 predictions a second, 15 are answered in time.
  expect(server.overload(20)).toBeGreaterThan(0.15);
});

test("a large prediction that has started does not delay the start of small ones", () => {
  const server = new Server();
  server.overload(1000);
  server.add(10_000);
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
  for (let i = 0; i < 300; i++) server.add(1);
  while (server.turns.size > 0) server.pass();
  expect(server.answeredAfterMs).toEqual(server.answeredAfterMs.toSorted((a, b) => a - b));
});

describe("a client with one prediction, beside a client with 1,000 predictions,", () => {
  const few: Sender = { address: "10.0.0.2", name: "few" };
  const kinds: readonly (readonly [name: string, many: (i: number) => Sender, count: number, isPatient: boolean])[] = [
    ["that it waits for", () => ({ address: "10.0.0.1", name: "many" }), 1, false],
    ["that it comes back for", () => ({ address: "10.0.0.1", name: "many" }), 1, true],
    ["of several inputs", () => ({ address: "10.0.0.1", name: "many" }), 20, false],
    ["of the same proxy", () => ({ address: few.address, name: "many" }), 1, false],
    ["with a new name each", (i) => ({ address: "10.0.0.1", name: `many ${i}` }), 1, false],
  ];

  test.each(kinds)("%s is served after at most three turns", (_, many, count, isPatient) => {
    const server = new Server();
    for (let i = 0; i < 1000; i++) server.add(count, isPatient, many(i));
    for (let i = 0; i < 10; i++) {
      for (let turns = 0; turns < 20 * TURN_MS; turns++) server.pass();
      server.answeredAfterMs.length = 0;
      expect(server.turns.ahead(few)).toBeLessThanOrEqual(4);
      const list = server.add(1, false, few);
      // The other clients may have two turns before this list: one for a running prediction, one for a new prediction.
      for (let turns = 0; turns < 3 * TURN_MS; turns++) server.pass();
      expect(list?.next).toBe(1);
    }
  });
});

test("running predictions that leave while none waits shorten no queue", () => {
  const server = new Server();
  const running = Array.from({ length: 40 }, () => server.add(1));
  for (const list of running) {
    server.turns.take(list);
    server.turns.delete(list);
  }
  for (const list of running) server.leave(list);
  for (let i = 0; i < 100; i++) server.add(1);
  expect(server.turns.ahead(undefined)).toBe(100);
});

test("if one client causes an overload, predictions of another client are accepted and answered, and the first client gets the rest", () => {
  const server = new Server();
  server.overload(1000);
  const few = { address: "10.0.0.2", name: "few" };
  let answered = 0;
  for (let i = 0; i < 1000; i++) {
    const list = server.add(1, false, few);
    for (let ms = 0; ms < 4 * TURN_MS; ms++) {
      server.add(1, false, { address: "10.0.0.1", name: "many" });
      server.pass(3000);
    }
    answered += list?.next ?? 0;
  }
  expect(answered).toBe(1000);
  server.answeredAfterMs.length = 0;
  expect(server.overload(1000)).toBeGreaterThan(0.92);
});

test("an API key with share 3 gets three turns for each turn of another client", () => {
  const server = new Server();
  const key: Sender = { address: "key a", name: "1", share: 3 };
  const other: Sender = { address: "10.0.0.2", name: "1" };
  const lists = new Map<ItemList | undefined, string>();
  for (let i = 0; i < 12; i++) lists.set(server.add(1, false, key), "key");
  for (let i = 0; i < 12; i++) lists.set(server.add(1, false, other), "other");
  const order: (string | undefined)[] = [];
  for (let list = server.turns.next(false); list !== undefined; list = server.turns.next(false)) {
    server.turns.take(list);
    server.turns.delete(list);
    order.push(lists.get(list));
  }
  expect(order.slice(0, 8)).toEqual(["key", "key", "key", "other", "key", "key", "key", "other"]);
  expect(order.slice(16)).toEqual(Array(8).fill("other"));
});

/** The queue of clients. `takeNext` gives the next prediction its turn, and removes it after `count` turns. */
function clients() {
  const queue = new Turns({ batchItems: () => 4, itemsMs: () => 0 });
  const come = (sender?: Sender) => {
    const list = new ItemList(new ReadyInputs([0]), { succeeded() {}, failed() {} }, { sender });
    queue.enter(list);
    queue.add(list);
    return list;
  };
  const takeNext = (isFull = false) => {
    const list = queue.next(isFull);
    if (list !== undefined) queue.take(list);
    return list;
  };
  return { queue, come, takeNext };
}

test("an address whose items cost three times as much as those of another gets a third of its turns", () => {
  const { queue, come, takeNext } = clients();
  const costly = come({ address: "10.0.0.1", name: "1" });
  const cheap = come({ address: "10.0.0.2", name: "1" });
  const turns = new Map([costly, cheap].map((list) => [list, 0]));
  for (let i = 0; i < 4000; i++) {
    const list = takeNext();
    if (list === undefined) throw new Error("both wait");
    turns.set(list, (turns.get(list) ?? 0) + 1);
    queue.charge(list, list === costly ? 30 : 10, false);
  }
  expect((turns.get(cheap) ?? 0) / (turns.get(costly) ?? 0)).toBeCloseTo(3, 0);
});

test("an address does not pay later for what it used while no other waited", () => {
  const { queue, come, takeNext } = clients();
  const alone = come({ address: "10.0.0.1", name: "1" });
  for (let i = 0; i < 100; i++) {
    takeNext();
    queue.charge(alone, i === 99 ? 10 : 10_000, false);
  }
  takeNext();
  const other = come({ address: "10.0.0.2", name: "1" });
  expect([takeNext(), takeNext(), takeNext(), takeNext()].filter((list) => list === other).length).toBe(2);
});

test("clients whose items often fail are suspect, with new names at their address, and wait for the batch of others", () => {
  const { queue, come, takeNext } = clients();
  const [good, bad] = [come({ address: "good", name: "1" }), come({ address: "bad", name: "1" })];
  for (let i = 0; i < 5; i++) queue.charge(bad, 10, true);
  const next = come({ address: "bad", name: "2" });
  expect([good, bad, next].map((list) => list.client?.isSuspect)).toEqual([false, true, true]);
  expect(Array.from({ length: 3 }, () => takeNext(true))).toEqual([good, good, good]);
  const turns = Array.from({ length: 4 }, () => takeNext());
  expect(turns.filter((list) => list === good).length).toBe(2);
  expect(new Set(turns).size).toBe(3);
  for (let i = 0; i < 25; i++) queue.charge(next, 10, false);
  expect([bad, next].map((list) => list.client?.isSuspect)).toEqual([true, false]);
});

test("a client whose items have failed stays suspect between its predictions, unless ten thousand others come", () => {
  const { queue, come } = clients();
  const visit = (address: string, failures = 0) => {
    const list = come({ address, name: "1" });
    for (let i = 0; i < failures; i++) queue.charge(list, 10, true);
    const wasSuspect = list.client?.isSuspect;
    queue.leave(list);
    return wasSuspect;
  };
  visit("bad", 5);
  expect([visit("bad"), visit("good")]).toEqual([true, false]);
  for (let i = 0; i < 10_000; i++) visit(`bad ${i}`, 1);
  expect(visit("bad")).toBe(false);
});

test("each list that is added gets one turn or is deleted, in any order", () => {
  const step = fc.record({
    does: fc.constantFrom("add", "add", "add", "take", "pass", "delete", "fail"),
    address: fc.integer({ min: 0, max: 2 }),
    name: fc.integer({ min: 0, max: 2 }),
    isFull: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const { queue, come, takeNext } = clients();
      const waiting = new Set<ItemList>();
      let nowMs = 0;
      for (const { does, address, name, isFull } of steps) {
        const sender = address === 0 ? undefined : { address: `${address}`, name: `${name}` };
        const [some] = waiting;
        if (does === "add") waiting.add(come(sender));
        else if (does === "fail" && some !== undefined) queue.charge(some, 100, true);
        // After predictions have left without a result, the newest go first.
        else if (does === "pass") {
          nowMs += 1000;
          queue.look(nowMs);
        } else {
          const list = does === "delete" ? some : takeNext(isFull);
          // Only suspect clients have to wait.
          if (list === undefined) expect([...waiting].every(({ client }) => client?.isSuspect && isFull)).toBe(true);
          else {
            expect(waiting.delete(list)).toBe(true);
            queue.leave(list);
          }
        }
        expect(queue.size).toBe(waiting.size);
        expect(queue.ahead(sender)).toBeLessThanOrEqual(waiting.size);
      }
      for (let list = takeNext(); list !== undefined; list = takeNext()) {
        expect(waiting.delete(list)).toBe(true);
        queue.leave(list);
      }
      expect(waiting.size).toBe(0);
    }),
  );
});
