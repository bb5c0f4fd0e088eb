/** Whose turn it is when there is more to do than can be done, on a simulated clock. */
import { expect, test } from "bun:test";
import { ItemList } from "../src/server/flow/item-list.ts";
import { Turns } from "../src/server/flow/turns.ts";
import { ReadyInputs } from "../src/server/inputs/input-list.ts";

const TURN_MS = 10;
/** From an input's turn to its output. */
const PIPELINE_MS = 100;
const SECONDS = 15;

interface Prediction {
  readonly list: ItemList;
  readonly bornMs: number;
}

/** A device that begins one input each 10 ms, and clients that wait so long for theirs. */
class Server {
  readonly turns: Turns;
  readonly refusedAfterMs: number[] = [];
  readonly answeredAfterMs: number[] = [];
  refusedAtOnce = 0;
  polledTurns = 0;
  nowMs = 0;
  readonly #waiting = new Map<ItemList, Prediction>();

  constructor(pollShare = 0.1) {
    this.turns = new Turns({ pollShare, batchSize: 4, readyBatches: 0, itemsMs: (items) => items * TURN_MS });
  }

  add(count: number, isWaitedFor: boolean): ItemList | undefined {
    const { waitMs, patienceMs } = this.turns.waitMs(isWaitedFor, this.nowMs);
    if (waitMs > patienceMs) {
      this.refusedAtOnce += 1;
      return undefined;
    }
    const bornMs = this.nowMs;
    const list = new ItemList(
      new ReadyInputs(Array(count).fill(0)),
      {
        succeeded: () => {},
        failed: () => {},
        refused: () => {
          this.#waiting.delete(list);
          this.refusedAfterMs.push(this.nowMs - bornMs);
        },
      },
      { isWaitedFor },
    );
    if (isWaitedFor) this.#waiting.set(list, { list, bornMs });
    this.turns.add(list, this.nowMs);
    return list;
  }

  /** A millisecond in which clients that have waited for `patienceMs` leave. */
  pass(patienceMs = Infinity): void {
    this.nowMs += 1;
    for (const { list, bornMs } of this.#waiting.values()) {
      if (bornMs + patienceMs > this.nowMs) break;
      this.turns.leave(list, this.nowMs);
      this.#waiting.delete(list);
    }
    if (this.nowMs % TURN_MS !== 0) return;
    this.turns.look(this.nowMs);
    const list = this.turns.next();
    if (list === undefined) return;
    this.turns.delete(list);
    list.next += 1;
    if (!list.isWaitedFor) this.polledTurns += 1;
    if (list.next < list.count) {
      this.turns.add(list, this.nowMs);
      return;
    }
    const { bornMs } = this.#waiting.get(list) ?? { bornMs: this.nowMs };
    this.#waiting.delete(list);
    const afterMs = this.nowMs + PIPELINE_MS - bornMs;
    if (list.isWaitedFor && afterMs < patienceMs) this.answeredAfterMs.push(afterMs);
  }

  /** Offers so many predictions a second to clients that leave after three seconds; answers how many inputs were answered in time, of what could be. */
  overload(perSecond: number, count = 1): number {
    let due = 0;
    for (const endMs = this.nowMs + 1000 * SECONDS; this.nowMs < endMs; this.pass(3000)) {
      for (due += perSecond / 1000; due >= 1; due -= 1) this.add(count, true);
    }
    return (count * this.answeredAfterMs.length) / ((1000 * SECONDS) / TURN_MS);
  }
}

test.each([[200], [1000]])(
  "of %d predictions a second for a device that does 100, as many are answered in time as it does",
  (perSecond) => {
    const server = new Server();
    expect(server.overload(perSecond)).toBeGreaterThan(0.95);
    // Those that are not are mostly told so at once, and the rest while they listen.
    expect(Math.max(...server.refusedAfterMs)).toBeLessThan(3000);
    expect(server.refusedAtOnce).toBeGreaterThan(server.refusedAfterMs.length / 2);
    const late = server.answeredAfterMs.toSorted((a, b) => a - b).at(-50) ?? Infinity;
    expect(late).toBeLessThan(3000);
  },
);

test("predictions of several inputs are finished once they are begun", () => {
  const server = new Server();
  server.overload(250, 4);
  server.answeredAfterMs.length = 0;
  expect(server.overload(250, 4)).toBeGreaterThan(0.9);
});

test("clients that stay are served in order, however long the queue", () => {
  const server = new Server();
  for (let i = 0; i < 2000; i++) server.add(1, true);
  while (server.turns.size > 0) server.pass();
  expect(server.refusedAfterMs).toEqual([]);
  expect(server.answeredAfterMs).toEqual(server.answeredAfterMs.toSorted((a, b) => a - b));
  expect(server.answeredAfterMs.length).toBe(2000);
});

test("a short queue is served in order although a client leaves it", () => {
  const server = new Server();
  const lists = Array.from({ length: 30 }, () => server.add(1, true));
  if (lists[29] !== undefined) server.turns.leave(lists[29], 0);
  while (server.turns.size > 0) server.pass();
  expect(server.refusedAfterMs).toEqual([]);
  expect(server.answeredAfterMs.length).toBe(29);
});

test("clients that leave before any could be served shorten the time of no others", () => {
  const server = new Server();
  for (let ms = 0; ms < 3000; ms++) {
    if (server.turns.size < 20) server.add(1, true);
    server.pass();
    const hasty = server.add(1, true);
    if (hasty !== undefined) server.turns.leave(hasty, server.nowMs);
  }
  while (server.turns.size > 0) server.pass();
  expect(server.refusedAfterMs).toEqual([]);
});

test.each([[0.1], [0.5]])("predictions that nobody waits for are not refused and keep a share of %d", (share) => {
  const server = new Server(share);
  server.overload(1000);
  const before = server.polledTurns;
  for (let i = 0; i < 1000; i++) server.add(1, false);
  server.overload(1000);
  expect((server.polledTurns - before) / ((1000 * SECONDS) / TURN_MS)).toBeCloseTo(share, 1);
  // Those that are waited for have the rest.
  expect(server.answeredAfterMs.length).toBeGreaterThan((2 - share) * 0.9 * ((1000 * SECONDS) / TURN_MS));
});

test("with a long queue of those behind them, clients that wait go first once some have left, and go on to", () => {
  const server = new Server();
  for (let i = 0; i < 2000; i++) server.add(1, false);
  // A fifth of what the device can do.
  expect(server.overload(20)).toBeGreaterThan(0.15);
});

test("a large prediction that was begun does not keep small ones from being begun", () => {
  const server = new Server();
  server.overload(1000);
  server.add(10_000, true);
  server.answeredAfterMs.length = 0;
  expect(server.overload(1000)).toBeGreaterThan(0.45);
});

test("when the queue is gone all have their turns in order again", () => {
  const server = new Server();
  server.overload(1000);
  while (server.turns.size > 0) server.pass();
  server.pass();
  for (let i = 0; i < 2000 + TURN_MS; i++) server.pass();
  server.answeredAfterMs.length = 0;
  server.refusedAfterMs.length = 0;
  for (let i = 0; i < 300; i++) server.add(1, true);
  while (server.turns.size > 0) server.pass();
  expect(server.answeredAfterMs).toEqual(server.answeredAfterMs.toSorted((a, b) => a - b));
  expect(server.refusedAfterMs).toEqual([]);
});

test("after a time without clients a queue does not stand, though nobody looked at it meanwhile", () => {
  const server = new Server();
  server.overload(1000);
  while (server.turns.size > 0) server.pass();
  server.refusedAfterMs.length = 0;
  server.refusedAtOnce = 0;
  server.nowMs += 10_000;
  for (let i = 0; i < 300; i++) server.add(1, true);
  while (server.turns.size > 0) server.pass();
  expect(server.refusedAtOnce).toBe(0);
  expect(server.refusedAfterMs).toEqual([]);
});
