/** When an engine process announces a batch to its fronts, before or with its result. */
import { describe, expect, test } from "bun:test";
import { tensor } from "../src/author/tensor.ts";
import { EngineServer } from "../src/engine/remote/engine-server.ts";
import { FrameReader, frameKinds, IS_ALONE, KIND_MASK, type Wire, type WireEnd } from "../src/engine/remote/frame.ts";
import { RunningItems } from "../src/engine/remote/running-items.ts";
import type { Runner } from "../src/engine/runner.ts";
import { openShared } from "../src/machine/processes/shared-memory.ts";
import { nextTurn } from "./helpers/loop-turns.ts";
import { DoublingRunner, Front, info, one } from "./helpers/remote.ts";

describe("a batch", () => {
  /**
   * An engine whose clock stands still, except that each of its batches takes `batchMs`. Function calls replace
   * the socket of its front. `reports` counts the announced batches.
   */
  function timed({ batchMs, share = true }: { batchMs: number; share?: boolean }) {
    let nowMs = 1000;
    const timers: (() => void)[] = [];
    const clock = {
      now: () => nowMs,
      after(_: number, task: () => void) {
        timers.push(task);
        return () => {};
      },
    };
    const held: (() => void)[] = [];
    const running: RunningItems[] = [];
    const state = { reports: 0, holds: false, isAlone: false, parts: 0, held, timers, running };
    const double = new DoublingRunner();
    const runner: Runner = {
      async run(items, parts) {
        for (let i = 0; i < state.parts; i++) parts?.part([tensor(new Float32Array(items.length), [items.length])]);
        if (state.holds) await new Promise<void>((resolve) => held.push(resolve));
        nowMs += batchMs;
        return double.run(items);
      },
      settle() {},
      async setThreads() {},
      async dispose() {},
    };
    const front = new Front();
    const options = { ...one, info, runners: [runner], maxBatchSize: 4, maxQueueDelayMs: 0, clock };
    const server = new EngineServer(options);
    const ends: { front?: WireEnd; server?: WireEnd } = {};
    const counting = new FrameReader(({ words }, at) => {
      if (((words[at / 4 + 1] ?? 0) & KIND_MASK) === frameKinds.dispatched) state.reports += 1;
    });
    const sharing = new FrameReader(({ words }, at) => {
      const [, kind = 0, pid = 0, descriptor = 0] = words.subarray(at / 4);
      if ((kind & KIND_MASK) === frameKinds.submit && state.isAlone) words[at / 4 + 1] = kind | IS_ALONE;
      if ((kind & KIND_MASK) !== frameKinds.share) return;
      if (share) running.push(new RunningItems(openShared(pid, descriptor)));
      else words[at / 4 + 2] = 0;
    });
    const wire = (reader: FrameReader, end: () => WireEnd | undefined): Wire => ({
      write(bytes, from, length) {
        const chunk = bytes.slice(from, from + length);
        reader.push(chunk);
        queueMicrotask(() => end()?.data(chunk));
        return length;
      },
      end() {},
    });
    ends.front = front.engine.attach(wire(sharing, () => ends.server));
    ends.server = server.accept(wire(counting, () => ends.front));
    const run = async (index: number) => {
      front.submit({}, index);
      await front.untilEnded(index);
    };
    return { front, run, state };
  }

  test("after a batch of less than a millisecond is not announced: its result reports its start and its run time", async () => {
    const { front, run, state } = timed({ batchMs: 0.5 });
    for (const index of [1, 2, 3]) await run(index);
    expect(state.reports).toBe(1);
    expect(front.dispatched).toEqual([1, 2, 3]);
    expect(front.agoMs).toEqual([0, 0.5, 0.5]);
  });

  test("is announced before its first part, once", async () => {
    const { front, run, state } = timed({ batchMs: 0.5 });
    for (const index of [1, 2]) await run(index);
    state.parts = 2;
    front.submit({}, 3);
    while (state.timers.length === 0) await nextTurn();
    for (const timer of state.timers) timer();
    await front.untilEnded(3);
    expect(state.reports).toBe(2);
    expect(front.events.slice(-4)).toEqual(["dispatched 3", "part 3", "part 3", "ended 3"]);
  });

  test("that fails is announced before its items fail or run again, and each half is announced", async () => {
    const { front, run } = timed({ batchMs: 0.5 });
    for (const index of [1, 2]) await run(index);
    front.submit({}, 3, 4, -1);
    await front.untilEnded(5);
    expect(front.events.slice(-8)).toEqual([
      "dispatched 3,4,-1",
      "dispatched 3",
      "dispatched 4,-1",
      "ended 3",
      "dispatched 4",
      "dispatched -1",
      "ended 4",
      "ended -1",
    ]);
  });

  test("of one item that fails is announced, with the milliseconds since its start", async () => {
    const { front, run } = timed({ batchMs: 0.5 });
    for (const index of [1, 2]) await run(index);
    front.submit({}, -1);
    await front.untilEnded(3);
    expect(front.events.slice(-2)).toEqual(["dispatched -1", "ended -1"]);
    expect(front.agoMs.at(-1)).toBe(0.5);
  });

  test("after a batch of a millisecond is announced", async () => {
    const { front, run, state } = timed({ batchMs: 1 });
    for (const index of [1, 2, 3]) await run(index);
    expect(state.reports).toBe(3);
    expect(front.agoMs).toEqual([0, 0, 0]);
  });

  test("that was expected to be brief is announced if it still runs some time later", async () => {
    const { front, run, state } = timed({ batchMs: 0.5 });
    for (const index of [1, 2]) await run(index);
    state.holds = true;
    front.submit({}, 3);
    while (state.held.length === 0) await nextTurn();
    expect(front.dispatched).toEqual([1, 2]);
    for (const timer of state.timers) timer();
    await front.until(() => front.dispatched.length === 3);
    state.held.shift()?.();
    await front.untilEnded(3);
    expect(state.reports).toBe(2);
    expect(front.dispatched).toEqual([1, 2, 3]);
  });

  test("has flags in the shared memory until it ends", async () => {
    const { front, run, state } = timed({ batchMs: 0.5 });
    await run(1);
    state.holds = true;
    front.submit({}, 2);
    while (state.held.length === 0) await nextTurn();
    const are = () => [1, 2].map((number) => state.running[0]?.has(number));
    expect(are()).toEqual([false, true]);
    state.held.shift()?.();
    await front.untilEnded(2);
    expect(are()).toEqual([false, false]);
  });

  test("of an item that runs alone is always announced", async () => {
    const { run, state } = timed({ batchMs: 0.5 });
    for (const index of [1, 2]) await run(index);
    state.isAlone = true;
    await run(3);
    expect(state.reports).toBe(2);
  });

  test("is announced if the engine cannot open the memory of its front", async () => {
    const { run, state } = timed({ batchMs: 0.5, share: false });
    for (const index of [1, 2, 3]) await run(index);
    expect(state.reports).toBe(3);
  });
});
