/**
 * Compares the expected wait of new predictions with their real wait, in one server and in a queue with a worker, on
 * a simulated clock.
 */
import { expect, test } from "bun:test";
import { DrainRate } from "../src/pipeline/drain-rate.ts";
import { ReadyInputs } from "../src/pipeline/inputs/input-list.ts";
import { ItemList } from "../src/pipeline/item-list.ts";
import { Turns } from "../src/pipeline/turns.ts";
import { Admission, checkWait } from "../src/predictions/admission.ts";
import { QueueWait } from "../src/predictions/redis/queue-state.ts";

const BATCH = 8;
/** Maximum number of inputs that a server, or a worker of the queue, prepares ahead of their batches. */
const CREDITS = 2 * BATCH;

interface Probe {
  readonly askedMs: number;
  readonly expectedMs: number;
}

/** Simulates a server whose device runs a batch in `batchMs`. */
class Server {
  nowMs = 0;
  running = 0;
  ready = 0;
  endsMs = Infinity;
  readonly waits: (Probe & { readonly realMs: number })[] = [];
  readonly batchMs: number;
  readonly rate = new DrainRate(() => this.running);
  readonly turns: Turns;
  readonly admission: Admission;
  readonly #probes = new Map<ItemList, Probe>();

  constructor(batchMs: number) {
    this.batchMs = batchMs;
    this.turns = new Turns({ batchItems: () => BATCH, itemsMs: (items) => this.rate.waitMs(items, this.nowMs) });
    const queueMs = () => (this.ready < CREDITS ? 0 : this.waitMs);
    this.admission = new Admission({ queueMs, limits: { maxQueuedItems: 10_000, maxQueuedBytes: Infinity } });
  }

  /** Expected milliseconds until a new prediction begins. */
  get waitMs(): number {
    return this.rate.waitMs(this.turns.ahead(undefined), this.nowMs);
  }

  /** Adds a prediction of `count` inputs. @throws SconceError if the server refuses it */
  add(count: number, waitMs = 0): ItemList {
    this.admission.check({ items: count, bytes: 0, timeLimitMs: 600_000, waitMs });
    const receiver = { succeeded: () => {}, failed: () => {} };
    const list = new ItemList(new ReadyInputs(Array(count).fill(0)), receiver);
    this.turns.enter(list);
    this.turns.add(list);
    return list;
  }

  probe(): void {
    const expectedMs = this.waitMs;
    this.#probes.set(this.add(1), { askedMs: this.nowMs, expectedMs });
  }

  pass(ms: number): void {
    for (const untilMs = this.nowMs + ms; this.nowMs < untilMs; this.nowMs += 1) {
      this.#begin();
      if (this.nowMs >= this.endsMs) {
        this.running = 0;
        this.endsMs = Infinity;
      }
      if (this.running > 0 || this.ready === 0) continue;
      this.running = Math.min(BATCH, this.ready);
      this.ready -= this.running;
      this.endsMs = this.nowMs + this.batchMs;
      this.#begin();
      this.rate.started(this.running, this.nowMs);
      if (this.ready < CREDITS) this.rate.idle();
    }
  }

  #begin(): void {
    for (let list = this.ready < CREDITS ? this.turns.next(false) : undefined; list !== undefined; ) {
      this.turns.take(list);
      list.next += 1;
      this.ready += 1;
      const probe = this.#probes.get(list);
      if (probe !== undefined) this.waits.push({ ...probe, realMs: this.nowMs - probe.askedMs });
      this.#probes.delete(list);
      if (list.next < list.count) this.turns.add(list);
      list = this.ready < CREDITS ? this.turns.next(false) : undefined;
    }
    if (this.turns.size > 0 && this.ready >= CREDITS) this.rate.busy(this.nowMs);
  }
}

interface QueuedPrediction {
  left: number;
  claimedMs: number;
  readonly probe: Probe | undefined;
}

/**
 * Simulates a queue with one worker, which runs `perSecond` inputs a second and alternates between predictions.
 * Replicas read the state of the queue once a second.
 */
class Queue {
  nowMs = 0;
  readonly waits: (Probe & { readonly realMs: number })[] = [];
  readonly #perSecond: number;
  readonly #wait = new QueueWait();
  readonly #waiting: QueuedPrediction[] = [];
  readonly #claimed: QueuedPrediction[] = [];
  #ended = 0;
  #due = 0;

  constructor(perSecond: number) {
    this.#perSecond = perSecond;
  }

  get expectedMs(): number {
    return this.#wait.waitMs(this.nowMs);
  }

  /** Adds a prediction of `count` inputs. @throws SconceError if the queue refuses it */
  add(count: number, waitMs = Infinity): void {
    checkWait(this.expectedMs, { timeLimitMs: 600_000, waitMs });
    this.#add(count, undefined);
  }

  probe(): void {
    this.#add(1, { askedMs: this.nowMs, expectedMs: this.expectedMs });
  }

  #add(left: number, probe: Probe | undefined): void {
    this.#waiting.push({ left, claimedMs: 0, probe });
  }

  pass(ms: number): void {
    for (const untilMs = this.nowMs + ms; this.nowMs < untilMs; this.nowMs += 1) {
      if (this.nowMs % 1000 === 0) {
        const [waiting, taken] = [this.#waiting.length, this.#claimed.length];
        this.#wait.update({ ended: this.#ended, waiting, taken }, this.nowMs);
      }
      // The worker counts a claimed prediction as 2 inputs for 500 ms, then as 0.2, so it claims more predictions.
      const shareOf = ({ claimedMs }: QueuedPrediction) => (this.nowMs - claimedMs > 500 ? 0.2 : 2);
      while (this.#claimed.reduce((sum, each) => sum + shareOf(each), 0) <= CREDITS - BATCH) {
        const next = this.#waiting.shift();
        if (next === undefined) break;
        next.claimedMs = this.nowMs;
        if (next.probe !== undefined) this.waits.push({ ...next.probe, realMs: this.nowMs - next.probe.askedMs });
        this.#claimed.push(next);
      }
      for (this.#due += this.#perSecond / 1000; this.#due >= 1; this.#due -= 1) {
        const first = this.#claimed.shift();
        if (first === undefined) continue;
        first.left -= 1;
        if (first.left > 0) this.#claimed.push(first);
        else this.#ended += 1;
      }
    }
  }
}

/** Expected wait divided by real wait, for each prediction with either of them above two seconds. */
function ratiosOf(waits: Server["waits"]): number[] {
  return waits.flatMap(({ expectedMs, realMs }) => (Math.max(expectedMs, realMs) > 2000 ? expectedMs / realMs : []));
}

test.each([
  ["one server", () => new Server(8)],
  ["a queue", () => new Queue(1000)],
])("%s that has just begun a large prediction of quick items refuses nobody", (_, start) => {
  const server = start();
  server.add(10_000 - 150);
  for (let i = 0; i < 150; i++) {
    server.pass(100);
    server.add(1, 5000);
  }
});

test.each([
  ["one server", () => new Server(4000), 4],
  ["a queue", () => new Queue(100), 4],
])("%s expects the real wait within a factor of two from its first seconds on", (_, start, fromS) => {
  const server = start();
  for (let i = 0; i < 300; i++) server.add(server instanceof Queue ? 20 : 1);
  for (let second = 1; second < 50; second++) {
    server.pass(1000);
    if (second >= fromS) server.probe();
  }
  server.pass(600_000);
  const ratios = ratiosOf(server.waits);
  expect(ratios.length).toBeGreaterThan(10);
  expect(Math.min(...ratios)).toBeGreaterThanOrEqual(0.5);
  expect(Math.max(...ratios)).toBeLessThanOrEqual(2);
});
