/** If an engine process dies, only the item that caused its death fails. */
import { describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { float32, tensor } from "../src/author/tensor.ts";
import { SconceError } from "../src/base/errors.ts";
import { tempDir } from "./helpers/fixture.ts";
import { nextTurn } from "./helpers/loop-turns.ts";
import { Front, ScriptedEngine } from "./helpers/remote.ts";

test("an engine process is released only after it has answered the connection", async () => {
  await using dir = await tempDir();
  const { engine } = new Front();
  using _process = new ScriptedEngine(dir.join("1"));
  const connected = engine.connect(dir.join("1"));
  expect(engine.release()).toBe(false);
  await connected;
  expect(engine.release()).toBe(true);
});

describe("if the engine process ends,", () => {
  const reason = "the engine was ended by SIGSEGV";
  async function untilLost({ engine }: Front): Promise<void> {
    while (engine.isReady) await nextTurn();
  }

  /**
   * Ends the engine process. The HTTP process learns of it by the supervisor's message and by the closed connection,
   * in either order.
   */
  async function end(front: Front, engine: ScriptedEngine, isToldFirst: boolean): Promise<void> {
    if (isToldFirst) front.engine.engineEnded(reason);
    engine[Symbol.dispose]();
    await untilLost(front);
    if (!isToldFirst) front.engine.engineEnded(reason);
  }

  for (const isToldFirst of [true, false]) {
    const order = isToldFirst ? "before" : "after";
    test(`and the reason arrives ${order} that, other items run next in order, and items of the running batch run alone`, async () => {
      await using dir = await tempDir();
      const front = new Front();
      const [lane, cancelled] = [{}, {}];
      const first = new ScriptedEngine(dir.join("1"));
      await front.engine.connect(dir.join("1"));
      front.submit(lane, 1, 2, 3);
      front.submit(cancelled, 4);
      front.submit(lane, 5);
      await first.untilSubmitted(5);
      first.dispatch([1]);
      first.finish([1]);
      first.dispatch([2, 4]);
      await front.until(() => front.dispatched.length === 3);
      await end(front, first, isToldFirst);
      expect(front.engine.isReady).toBe(false);
      front.cancel(cancelled);
      front.submit(lane, 6);
      using second = new ScriptedEngine(dir.join("2"));
      await front.engine.connect(dir.join("2"));
      await second.untilSubmitted(4);
      expect(second.submitted.map(({ value, isAlone }) => ({ value, isAlone }))).toEqual([
        { value: 2, isAlone: true },
        { value: 3, isAlone: false },
        { value: 5, isAlone: false },
        { value: 6, isAlone: false },
      ]);
      second.dispatch([2], { isAlone: true });
      second.dispatch([3, 5, 6]);
      second.finish([2]);
      second.finish([3, 5, 6]);
      await front.untilEnded(5);
      expect(front.values.map(([index]) => index)).toEqual([1, 2, 3, 5, 6]);
      expect(front.errors.size).toBe(0);
    });

    test(`and the reason arrives ${order} that, an item that ran alone fails with the reason`, async () => {
      await using dir = await tempDir();
      const front = new Front();
      const engine = new ScriptedEngine(dir.join("1"));
      await front.engine.connect(dir.join("1"));
      front.submit({}, 1, 2);
      await engine.untilSubmitted(2);
      engine.dispatch([1], { isAlone: true });
      await front.until(() => front.dispatched.length === 1);
      await end(front, engine, isToldFirst);
      expect([...front.errors]).toEqual([
        [1, new SconceError("engine_ended", "the engine was ended by SIGSEGV while it ran this input alone")],
      ]);
    });
  }

  test("items of a running batch run alone next, even if the batch was not announced", async () => {
    await using dir = await tempDir();
    const front = new Front();
    const cancelled = {};
    const first = new ScriptedEngine(dir.join("1"));
    await front.engine.connect(dir.join("1"));
    front.submit({}, 1, 2, 3, 4);
    await first.untilSubmitted(4);
    first.run([1]);
    first.finish([1]);
    first.run([2, 4]);
    front.submit(cancelled, 5);
    await first.untilSubmitted(5);
    first.run([5]);
    front.cancel(cancelled);
    await front.untilEnded(1);
    await end(front, first, true);
    const second = new ScriptedEngine(dir.join("2"));
    await front.engine.connect(dir.join("2"));
    await second.untilSubmitted(3);
    expect(second.areRunning(first.submitted.map(({ number }) => number))).toBe(false);
    expect(second.submitted.map(({ value, isAlone }) => [value, isAlone])).toEqual([
      [2, true],
      [3, false],
      [4, true],
    ]);
    second.dispatch([2], { isAlone: true });
    await front.until(() => front.dispatched.includes(2));
    await end(front, second, true);
    expect([...front.errors.keys()]).toEqual([2]);
  });

  test("no new engine process is connected before the reason is known", async () => {
    await using dir = await tempDir();
    const front = new Front();
    const first = new ScriptedEngine(dir.join("1"));
    await front.engine.connect(dir.join("1"));
    first[Symbol.dispose]();
    await untilLost(front);
    using _ = new ScriptedEngine(dir.join("2"));
    await expect(front.engine.connect(dir.join("2"))).rejects.toThrow("has not ended");
    front.engine.engineEnded(reason);
    await front.engine.connect(dir.join("2"));
    expect(front.engine.isReady).toBe(true);
  });

  test("an item that was waiting in two processes that ended runs alone, since it may have been dispatched without a report", async () => {
    await using dir = await tempDir();
    const front = new Front();
    front.submit({}, 1);
    for (const path of ["1", "2", "3"]) {
      const engine = new ScriptedEngine(dir.join(path));
      await front.engine.connect(dir.join(path));
      await engine.untilSubmitted(1);
      expect(engine.submitted[0]?.isAlone).toBe(path === "3");
      await end(front, engine, true);
    }
  });

  test("before it was ready, no item is suspected, and the next engine process can be connected", async () => {
    await using dir = await tempDir();
    const front = new Front();
    front.submit({}, 1);
    await expect(front.engine.connect(dir.join("none"))).rejects.toThrow();
    for (const name of ["a", "b", "c"]) {
      using _ = Bun.listen({ unix: dir.join(name), socket: { open: (socket) => void socket.end(), data() {} } });
      await expect(front.engine.connect(dir.join(name))).rejects.toThrow("ended before it was ready");
      front.engine.engineEnded(reason);
    }
    using engine = new ScriptedEngine(dir.join("d"));
    await front.engine.connect(dir.join("d"));
    await engine.untilSubmitted(1);
    expect(engine.submitted[0]?.isAlone).toBe(false);
  });

  test("memory and sockets are used again, even after a hundred ends", async () => {
    await using dir = await tempDir();
    const specs = { inputs: { x: float32(2 ** 18) }, outputs: { y: float32() } };
    const front = new Front(specs);
    const x = tensor(new Float32Array(2 ** 18), [2 ** 18]);
    const rss = () => {
      Bun.gc(true);
      return process.memoryUsage().rss;
    };
    let before = { bytes: 0, files: 0 };
    for (let i = 0; i < 100; i++) {
      const engine = new ScriptedEngine(dir.join(`${i}`));
      await front.engine.connect(dir.join(`${i}`));
      for (let j = 0; j < 4; j++) front.submitOne(front, 4 * i + j, { x });
      await end(front, engine, true);
      front.cancel(front);
      if (i === 20) before = { bytes: rss(), files: readdirSync("/dev/fd").length };
    }
    expect(rss() - before.bytes).toBeLessThan(100 * 2 ** 20);
    expect(readdirSync("/dev/fd").length - before.files).toBeLessThan(10);
  });

  test("because of one item, all other items run, and its last reports are received", async () => {
    await using dir = await tempDir();
    const front = new Front();
    const values = Array.from({ length: 2000 }, (_, i) => i);
    let deaths = 0;
    const live = async (): Promise<void> => {
      const path = dir.join(`${deaths}`);
      const listening = Promise.withResolvers<void>();
      const child = Bun.spawn([process.execPath, join(import.meta.dir, "helpers/engine-child.ts"), path], {
        ipc: () => listening.resolve(),
        stdout: "inherit",
        stderr: "inherit",
      });
      await listening.promise;
      await front.engine.connect(path);
      await Promise.race([child.exited, front.untilEnded(values.length + 1)]);
      if (front.rows.size === values.length) child.kill();
      await child.exited;
      deaths += 1;
      front.engine.engineEnded(`the engine was ended by ${child.signalCode}`);
      if (front.rows.size < values.length) await live();
    };
    front.submit({}, -9, ...values);
    await live();
    expect(deaths).toBe(3);
    expect(front.values.toSorted(([a], [b]) => a - b)).toEqual(values.map((value) => [value, 2 * value]));
    expect([...front.errors].map(([index, { message }]) => [index, message])).toEqual([
      [-9, "the engine was ended by SIGKILL while it ran this input alone"],
    ]);
  }, 120_000);
});
