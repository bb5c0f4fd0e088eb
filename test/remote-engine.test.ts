/** The two ends of the engine: a front, and the process that runs batches. */
import { describe, expect, test } from "bun:test";
import { float32, type Tensor, tensor } from "../src/author/tensor.ts";
import { authorStack, messageWithLine } from "../src/base/author-line.ts";
import { SconceError } from "../src/base/errors.ts";
import { EngineServer, type EngineServerOptions } from "../src/engine/remote/engine-server.ts";
import { RunningItems } from "../src/engine/remote/running-items.ts";
import type { Runner } from "../src/engine/runner.ts";
import { type TempDir, tempDir } from "./helpers/fixture.ts";
import { nextTurn } from "./helpers/loop-turns.ts";
import { DoublingRunner, Front, info, one } from "./helpers/remote.ts";

/** Starts an engine server on a socket, for `await using`: the end of the scope closes it. */
async function served(path: string, runner: Runner, options: Partial<EngineServerOptions> = {}) {
  const server = new EngineServer({ ...one, info, runners: [runner], maxBatchSize: 4, maxQueueDelayMs: 0, ...options });
  server.listen(path);
  return { [Symbol.asyncDispose]: () => server.close() };
}

/** Starts an engine server, and connects a front to it, for `await using`. */
async function connected(runner: Runner, options: Partial<EngineServerOptions> = {}, front = new Front()) {
  await using opening = new AsyncDisposableStack();
  const dir = opening.use(await tempDir());
  opening.use(await served(dir.join("s"), runner, options));
  await front.engine.connect(dir.join("s"));
  const closing = opening.move();
  return Object.assign(front, { [Symbol.asyncDispose]: () => closing.disposeAsync() });
}

describe("an item", () => {
  test("is refused at once if its tensors do not match the declaration", () => {
    const { engine } = new Front();
    const refused = () => engine.submit({ lane: 0, index: 0 }, { x: tensor(new Float32Array(2), [2]) });
    expect(refused).toThrow(expect.objectContaining({ code: "tensor_invalid" }));
  });

  test("is copied before `submit` returns", async () => {
    await using front = await connected(new DoublingRunner());
    const data = Float32Array.of(3);
    front.submitOne({}, 3, { x: tensor(data, []) });
    data[0] = 4;
    await front.untilEnded(1);
    expect(front.values).toEqual([[3, 6]]);
  });

  describe.if(process.platform === "linux")("of more than 1 kB", () => {
    const specs = { x: float32(2 ** 15) };
    const large = (value: number) => ({ x: tensor(new Float32Array(2 ** 15).fill(value), [2 ** 15]) });
    /**
     * A runner whose batches do not end until the test calls `end`. It returns the first number of each item, read at
     * that time, so that overwritten memory shows.
     */
    const runner = () => {
      const [seen, ends]: [Tensor[], (() => void)[]] = [[], []];
      const run: Runner["run"] = async (items) => {
        seen.push(...items.flat());
        await new Promise<void>((resolve) => ends.push(resolve));
        const firsts = Float32Array.from(items, ([x]) => Number(x?.data[0]));
        return [tensor(firsts, [items.length])];
      };
      return { run, seen, end: () => ends.shift()?.(), settle() {}, async setThreads() {}, async dispose() {} };
    };
    const placeOf = (x?: Tensor) => [x?.data.buffer.byteLength, x?.data.byteOffset];
    const sharedBytes = RunningItems.BYTES + 32 * 2 ** 20;

    test("stays in shared memory until its batch has ended", async () => {
      const held = runner();
      const options = { inputs: specs, maxBatchSize: 1 };
      await using front = await connected(held, options, new Front({ ...one, inputs: specs }));
      const submit = (lane: object, index: number) => front.submitOne(lane, index, large(index));
      const untilDispatched = (index: number) => front.until(() => front.dispatched.includes(index));
      // The first large item goes through the socket; later large items go through shared memory.
      submit({}, 1);
      await untilDispatched(1);
      held.end();
      await front.untilEnded(1);
      const gone = {};
      submit(gone, 2);
      await untilDispatched(2);
      front.cancel(gone);
      submit({}, 3);
      held.end();
      await untilDispatched(3);
      held.end();
      await front.untilEnded(2);
      submit({}, 4);
      submit({}, 5);
      await untilDispatched(4);
      held.end();
      await untilDispatched(5);
      held.end();
      await front.untilEnded(4);
      expect(front.values.map(([index]) => index)).toEqual([1, 3, 4, 5]);
      for (const [index, { y }] of front.rows) expect(y?.data[0]).toBe(index);
      const [first, second, third, ...later] = held.seen.map(placeOf);
      expect(first?.[0]).not.toBe(sharedBytes);
      const begin = RunningItems.BYTES;
      expect([second, third]).toEqual([begin, begin + 2 ** 18].map((at) => [sharedBytes, at]));
      expect(later.toSorted()).toEqual([second ?? [], third ?? []].toSorted());
      await front.engine.close();
    });

    /** A front after the end of its engine process. The process had dispatched item 2, which lies in shared memory. */
    async function orphaned(dir: TempDir) {
      const front = new Front({ ...one, inputs: specs });
      const submit = (index: number) => front.submitOne({}, index, large(index));
      const untilDispatched = (index: number) => front.until(() => front.dispatched.includes(index));
      const first = runner();
      {
        await using _ = await served(dir.join("1"), first, { inputs: specs });
        await front.engine.connect(dir.join("1"));
        submit(1);
        await untilDispatched(1);
        first.end();
        await front.untilEnded(1);
        submit(2);
        await untilDispatched(2);
      }
      front.engine.engineEnded("the engine was ended by SIGSEGV");
      while (front.engine.isReady) await nextTurn();
      const close = async () => {
        first.end();
        await front.engine.close();
      };
      return { front, submit, untilDispatched, [Symbol.asyncDispose]: close };
    }

    test("in shared memory can be read by the next engine process", async () => {
      await using dir = await tempDir();
      await using left = await orphaned(dir);
      const { front } = left;
      const second = runner();
      await using _ = await served(dir.join("2"), second, { inputs: specs });
      await front.engine.connect(dir.join("2"));
      await front.until(() => front.dispatched.filter((index) => index === 2).length === 2);
      second.end();
      await front.untilEnded(2);
      expect([front.rows.get(2)?.y?.data[0], placeOf(second.seen[0])]).toEqual([2, [sharedBytes, RunningItems.BYTES]]);
    });

    test("in shared memory that the next engine process cannot open fails; later items go through the socket", async () => {
      await using dir = await tempDir();
      await using left = await orphaned(dir);
      const { front } = left;
      const second = runner();
      await using _ = await served(dir.join("2"), second, { inputs: specs });
      // The engine process opens the memory by the front's process id.
      const pid = Object.getOwnPropertyDescriptor(process, "pid") ?? {};
      using _pid = { [Symbol.dispose]: () => Object.defineProperty(process, "pid", pid) };
      Object.defineProperty(process, "pid", { value: 2 ** 30, configurable: true });
      await front.engine.connect(dir.join("2"));
      left.submit(3);
      await left.untilDispatched(3);
      second.end();
      await front.untilEnded(3);
      expect(front.errors.get(2)?.message).toBe("an item lies in memory that is not shared");
      expect([front.rows.get(3)?.y?.data[0], second.seen.length]).toEqual([3, 1]);
    });
  });

  test("that fails in the author's code has a text and a stack for the log, and another text for clients", async () => {
    const runner = new DoublingRunner();
    const cause = Object.assign(new Error("no"), {
      stack: "Error: no\n    at run (model.ts:3:5)\n    at /sconce.ts:9:1",
    });
    runner.run = () => Promise.reject(new SconceError("run_failed", "no", { cause, clientMessage: "it failed" }));
    await using front = await connected(runner);
    front.submit({}, 1);
    await front.untilEnded(1);
    const error = front.errors.get(1) ?? new Error("none");
    expect(error).toMatchObject({ message: "no", clientMessage: "it failed" });
    expect(messageWithLine(error)).toBe("no (model.ts:3)");
    expect(authorStack(error)).toBe("    at run (model.ts:3:5)");
  });

  test("that fails has the reason, and does not affect other items", async () => {
    await using front = await connected(new DoublingRunner());
    front.submit({}, 1, -1, 2);
    await front.untilEnded(3);
    expect(front.values.toSorted()).toEqual([
      [1, 2],
      [2, 4],
    ]);
    expect(front.errors.get(-1)).toEqual(
      new SconceError("run_failed", "-1 can't be doubled", { clientMessage: "the model failed" }),
    );
  });

  test("that the weights refuse fails before it is queued, and later items of its prediction run", async () => {
    const runner = Object.assign(new DoublingRunner(), {
      checkItem([x]: readonly Tensor[]) {
        if (x?.data[0] === 13) throw new SconceError("run_failed", "a guard refuses 13");
      },
    });
    await using front = await connected(runner);
    front.submit({}, 13, 1, 2);
    await front.untilEnded(3);
    expect(front.errors.get(13)).toEqual(new SconceError("run_failed", "a guard refuses 13"));
    expect(front.values.toSorted()).toEqual([
      [1, 2],
      [2, 4],
    ]);
    expect([front.dispatched, runner.batches]).toEqual([[1, 2], [[1, 2]]]);
  });
});

describe("an HTTP process", () => {
  test("knows the engine's settings", async () => {
    await using dir = await tempDir();
    await using _ = await served(dir.join("s"), new DoublingRunner());
    const { engine } = new Front();
    expect([engine.isReady, engine.info]).toEqual([false, undefined]);
    await engine.connect(dir.join("s"));
    expect([engine.isReady, engine.maxBatchSize, engine.instances]).toEqual([true, 4, 1]);
    expect(engine.info).toEqual({ ...info, maxBatchSize: 4, instances: 1 });
  });

  test("shares batches with other HTTP processes, and gets only its own rows", async () => {
    await using dir = await tempDir();
    const runner = new DoublingRunner({ hold: true });
    await using _ = await served(dir.join("s"), runner);
    const [a, b] = [new Front(), new Front()];
    await Promise.all([a.engine.connect(dir.join("s")), b.engine.connect(dir.join("s"))]);
    a.submit({}, 0);
    await a.until(() => a.dispatched.length === 1);
    a.submit({}, 1, 2);
    b.submit({}, 11, 12);
    await Promise.all([a.until(() => a.dispatched.length === 3), b.until(() => b.dispatched.length === 2)]);
    expect(runner.batches.at(-1)?.toSorted()).toEqual([1, 11, 12, 2]);
    runner.end();
    runner.end();
    await Promise.all([a.untilEnded(3), b.untilEnded(2)]);
    expect(a.values.toSorted()).toEqual([
      [0, 0],
      [1, 2],
      [2, 4],
    ]);
    expect(b.values.toSorted()).toEqual([
      [11, 22],
      [12, 24],
    ]);
  });

  test("gets the first item of a prediction into a batch before the later items of a longer one", async () => {
    const arrived = Promise.withResolvers<void>();
    // While no batch can start, each item from the fourth on settles the runner.
    let settled = 0;
    const runner = Object.assign(new DoublingRunner({ hold: true }), {
      settle() {
        settled += 1;
        if (settled === 6) arrived.resolve();
      },
    });
    await using front = await connected(runner);
    front.submit({}, ...Array(8).keys());
    await front.until(() => front.dispatched.length === 8);
    const submit = (lane: number, index: number, ahead: number) =>
      front.engine.submit({ lane, index, ahead }, { x: tensor(Float32Array.of(index), []) });
    for (let ahead = 0; ahead < 8; ahead++) submit(100, 10 + ahead, ahead);
    submit(101, 20, 0);
    await arrived.promise;
    runner.end();
    await front.until(() => front.dispatched.length === 12);
    expect(runner.batches.at(-1)).toEqual([10, 20, 11, 12]);
    for (let i = 0; i < 4; i++) {
      runner.end();
      await front.untilEnded(Math.min(17, 4 * (i + 2)));
    }
  });

  test("gets one report for each batch", async () => {
    const sizes: number[] = [];
    const observed = new Front({ ...one, observer: { ran: ({ size }) => void sizes.push(size) } });
    await using front = await connected(new DoublingRunner(), {}, observed);
    front.submit({}, 1, 2, 3);
    await front.untilEnded(3);
    expect(sizes).toEqual([3]);
  });

  test("gets no report about items of a canceled prediction, and its other predictions continue", async () => {
    const runner = new DoublingRunner({ hold: true });
    await using front = await connected(runner);
    const [gone, stays] = [{}, {}];
    front.submit(gone, 1);
    await front.until(() => front.dispatched.length === 1);
    front.submit(gone, 2);
    front.submit(stays, 3);
    front.cancel(gone);
    runner.end();
    await front.until(() => front.dispatched.includes(3));
    runner.end();
    await front.untilEnded(1);
    expect(front.values).toEqual([[3, 6]]);
    expect(runner.batches).toEqual([[1], [3]]);
  });

  test("that disconnects leaves no items behind", async () => {
    await using dir = await tempDir();
    const runner = new DoublingRunner({ hold: true });
    await using _ = await served(dir.join("s"), runner);
    const [gone, stays] = [new Front(), new Front()];
    await Promise.all([gone.engine.connect(dir.join("s")), stays.engine.connect(dir.join("s"))]);
    gone.submit({}, 1);
    await gone.until(() => gone.dispatched.length === 1);
    gone.submit({}, 2, 3);
    await gone.engine.close();
    expect([...gone.errors.values()].map(({ code }) => code)).toEqual(Array(3).fill("session_closed"));
    stays.submit({}, 4);
    runner.end();
    await stays.until(() => stays.dispatched.length === 1);
    runner.end();
    await stays.untilEnded(1);
    expect(runner.batches.flat()).not.toContain(3);
  });
});
