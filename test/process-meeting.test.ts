/**
 * The folder and the counters that the processes of a server share, and how the processes notice that one of them is
 * blocked.
 */
import { expect, test } from "bun:test";
import { mkdir, readdir, stat } from "node:fs/promises";
import { Child } from "../src/machine/processes/child.ts";
import { EventLoopLag } from "../src/machine/processes/event-loop-lag.ts";
import { makeRunFolder } from "../src/machine/processes/run-folder.ts";
import { SharedCounters } from "../src/machine/processes/shared-counters.ts";
import { Supervised } from "../src/machine/processes/supervised.ts";
import { Watchdog } from "../src/machine/processes/watchdog.ts";
import { failureOf } from "./helpers/failure.ts";
import { tempDir } from "./helpers/fixture.ts";
import { nextTurn } from "./helpers/loop-turns.ts";
import { program } from "./helpers/process-roles.ts";
import { SimulatedClock } from "./helpers/simulation.ts";

test("a run folder is private, and removed when released", async () => {
  await using place = await tempDir();
  {
    using folder = makeRunFolder([place.path]);
    expect((await stat(folder.path)).mode & 0o777).toBe(0o700);
    expect(folder.join("engine.sock")).toBe(`${folder.path}/engine.sock`);
    expect(() => folder.join("a-name-of-more-than-24-bytes")).toThrow(RangeError);
  }
  expect(await readdir(place.path)).toEqual([]);
});

test("folders of killed servers are removed; folders of running servers and of other users stay", async () => {
  await using place = await tempDir();
  const folders: string[] = [];
  for (let i = 0; i < 3; i++) folders.push(await leftFolder(place.path));
  using living = makeRunFolder([place.path]);
  await mkdir(place.join("sconce-run-abc"));
  await mkdir(place.join("sconce-run-abcdef"));
  using next = makeRunFolder([place.path]);
  const expected = [living.path, next.path, place.join("sconce-run-abc"), place.join("sconce-run-abcdef")];
  expect((await readdir(place.path)).map((name) => place.join(name)).sort()).toEqual(expected.sort());
});

/** Starts a process with a run folder in `place`, and kills it. @returns the folder that is left */
async function leftFolder(place: string): Promise<string> {
  const ready = Promise.withResolvers<string>();
  const ended = Promise.withResolvers<void>();
  const child = new Child({
    role: "folder",
    name: "folder process",
    start: { place },
    program,
    onMessage: (message) => ready.resolve(JSON.stringify(message)),
    onEnd: () => ended.resolve(),
  });
  const told = await ready.promise;
  child.kill();
  await ended.promise;
  return told;
}

test("the run folder is in the first place that can be used", async () => {
  await using place = await tempDir();
  await mkdir(place.join("x".repeat(100)));
  using folder = makeRunFolder(["/nowhere", place.join("x".repeat(100)), place.path]);
  expect(folder.path).toStartWith(place.path);
});

test("if no place can be used, one line lists the fault of each", async () => {
  await using place = await tempDir();
  const long = place.join("x".repeat(100));
  await mkdir(long);
  const error = await failureOf(() => makeRunFolder(["/proc", long]));
  expect(error).toHaveProperty("code", "processes_unavailable");
  expect(error).toHaveProperty("message", expect.stringContaining("/proc (ENOENT"));
  expect(error).toHaveProperty("message", expect.stringContaining(`${long} (too long a path for sockets)`));
  expect(error).toHaveProperty("message", expect.not.stringContaining("\n"));
});

test("counters of several processes add up, and the counters of a dead process are dropped", async () => {
  await using dir = await tempDir();
  const path = dir.join("counters");
  const counters = SharedCounters.create({ path, names: ["items"], rows: 2 });
  const own = counters.counter("items", 0);
  own.add(7);
  let told = Promise.withResolvers<unknown>();
  let ready = Promise.withResolvers<unknown>();
  const other = new Supervised({
    role: "worker",
    start: () => ({ counters: { path, row: 1 } }),
    program,
    onMessage: (message) => told.resolve(message),
    onReady: (message) => ready.resolve(message),
    onEnd: () => counters.clear(1),
  });
  await other.start();
  void other.ask({ add: 5 });
  expect(await told.promise).toEqual({ sum: 12 });
  expect([own.own, own.sum()]).toEqual([7, 12]);
  [told, ready] = [Promise.withResolvers(), Promise.withResolvers()];
  other.restart("for the test");
  await ready.promise;
  expect(own.sum()).toBe(7);
  void other.ask({ add: 2.5 });
  expect(await told.promise).toEqual({ sum: 9.5 });
  await other.stop(60_000);
});

/** A simulated clock on which time can pass without timers, as in a blocked process. */
class HeldClock extends SimulatedClock {
  #heldMs = 0;

  override now(): number {
    return super.now() + this.#heldMs;
  }

  /** Lets time pass without running timers. */
  hold(ms: number): void {
    this.#heldMs += ms;
  }
}

test("a hook that has blocked the thread is named at most once a second, with the number of further times", async () => {
  const clock = new HeldClock();
  const warnings: string[] = [];
  const lags: number[] = [];
  const lag = new EventLoopLag({ clock, warn: (line) => warnings.push(line), onLag: (seconds) => lags.push(seconds) });
  lag.start();
  const hold = async (ms: number) => {
    clock.hold(ms);
    await clock.advanceTo(clock.nextAtMs);
  };
  lag.ran("preprocess");
  await hold(1300);
  expect(warnings.splice(0)).toEqual(["preprocess held the server for 1.3 s: no other request was answered meanwhile"]);
  for (let i = 0; i < 2; i++) {
    lag.ran("preprocess");
    await hold(300);
  }
  expect(warnings).toEqual([]);
  lag.ran("predict");
  await hold(260);
  expect(warnings.splice(0)).toEqual(["predict held the server for 0.26 s: no other request was answered meanwhile"]);
  // The first block has another cause than a hook, and the second is short, so neither is named.
  await hold(5000);
  lag.ran("demo");
  await hold(100);
  expect(warnings).toEqual([]);
  expect(lags.map((seconds) => Number(seconds.toFixed(2)))).toEqual([1.3, 0.3, 0.3, 0.26, 5, 0.1]);
  expect(lag.maxMs).toBeCloseTo(5000);
  await clock.advanceTo(1100);
  expect(warnings).toEqual([
    "preprocess held the server for 0.30 s: no other request was answered meanwhile (and 1 more like it in the last second)",
  ]);
  lag.stop();
});

function watch(clock: HeldClock) {
  const reasons: string[] = [];
  const questions: ((runningForMs: number) => void)[] = [];
  const watchdog = new Watchdog({
    limitMs: 5000,
    ask: () => new Promise((resolve) => questions.push(resolve)),
    onStuck: (reason) => reasons.push(reason),
    clock,
  });
  watchdog.start();
  const answer = async (runningForMs: number) => {
    questions.at(-1)?.(runningForMs);
    await nextTurn();
  };
  return { reasons, answer, asked: () => questions.length };
}

test("the watchdog asks a process one question at a time, and ends it after the limit without an answer", async () => {
  const clock = new HeldClock();
  const { reasons, asked, answer } = watch(clock);
  await clock.advanceTo(1000);
  await answer(0);
  await clock.advanceTo(6900);
  expect([asked(), reasons]).toEqual([2, []]);
  await clock.advanceTo(60_000);
  expect([asked(), reasons]).toEqual([2, ["it gave no answer for 5 s"]]);
});

test("a batch that exceeds the limit ends the process, and is reported once", async () => {
  const clock = new HeldClock();
  const { reasons, answer } = watch(clock);
  await clock.advanceTo(1000);
  await answer(5000);
  expect(reasons).toEqual([]);
  await clock.advanceTo(2000);
  await answer(5001);
  expect(reasons).toEqual(["a batch did not end within 5 s"]);
  expect(clock.nextAtMs).toBe(Infinity);
});

test("time in which the watchdog's own process was blocked does not count", async () => {
  const clock = new HeldClock();
  const { reasons, answer } = watch(clock);
  await clock.advanceTo(1000);
  clock.hold(60_000);
  await clock.advanceTo(2000);
  await answer(61_000);
  expect(reasons).toEqual([]);
  await clock.advanceTo(3000);
  await answer(0);
  await clock.advanceTo(9000);
  expect(reasons).toHaveLength(1);
});
