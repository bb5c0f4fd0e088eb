/** Child processes with a supervisor: restarts, messages, watchdog and stop. */
import { afterEach, expect, spyOn, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../src/base/clock.ts";
import { log } from "../../src/base/log.ts";
import { Backoff } from "../../src/machine/processes/backoff.ts";
import { deathOf, OomKills } from "../../src/machine/processes/death-reason.ts";
import { Supervised, type SupervisedOptions } from "../../src/machine/processes/supervised.ts";
import { failureOf } from "../helpers/failure.ts";
import { tempDir } from "../helpers/fixture.ts";
import { type Order, program } from "../helpers/process-roles.ts";
import { children, isRunning, until } from "../helpers/running.ts";

/** Starts a supervised process. Its ends, readiness and messages can be awaited, each in order. */
function supervise(options: Partial<SupervisedOptions> & { readonly data?: object } = {}) {
  const ends = queue<string>();
  const readies = queue<unknown>();
  const messages = queue<unknown>();
  const supervised = new Supervised({
    role: "worker",
    start: () => options.data ?? {},
    program,
    onEnd: ends.push,
    onReady: readies.push,
    onMessage: messages.push,
    backoff: new Backoff(() => 1),
    ...options,
  });
  return {
    supervised,
    end: ends.next,
    ready: readies.next,
    message: messages.next,
    tell: (order: Order) => void supervised.ask(order),
    ask: (order: Order) => supervised.ask(order),
    [Symbol.asyncDispose]: () => supervised.stop(0),
  };
}

function queue<T>() {
  const values: T[] = [];
  const waiting: ((value: T) => void)[] = [];
  return {
    push(value: T) {
      const waiter = waiting.shift();
      if (waiter === undefined) values.push(value);
      else waiter(value);
    },
    next: () =>
      new Promise<T>((resolve) => {
        const [value] = values.splice(0, 1);
        if (value === undefined) waiting.push(resolve);
        else resolve(value);
      }),
  };
}

const silent = Object.assign(() => {}, { raw: () => {} });

/** Collects log lines until the end of the scope. */
function lines() {
  const spies = (["error", "warn", "info"] as const).map((level) => spyOn(log, level).mockImplementation(silent));
  return {
    get all() {
      return spies.flatMap((spy) => spy.mock.calls.map(([line]) => String(line)));
    },
    [Symbol.dispose]: () => {
      for (const spy of spies) spy.mockRestore();
    },
  };
}

afterEach(async () => expect(await children()).toEqual([]));

for (const signal of ["SIGKILL", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGQUIT"]) {
  test(`a process that ${signal} ends restarts, and the reason is reported`, async () => {
    using logged = lines();
    await using process = supervise();
    await process.supervised.start();
    const before = pidOf(await process.ready());
    process.tell({ die: signal });
    expect(await process.end()).toBe(`was ended by ${signal}`);
    expect(pidOf(await process.ready())).not.toBe(before);
    expect(logged.all).toEqual([
      `The worker process was ended by ${signal}; starting it again`,
      "The worker process is ready again",
    ]);
  });
}

test("a process that exits restarts, and its code is reported", async () => {
  using _logged = lines();
  await using process = supervise({ name: "front process 2" });
  await process.supervised.start();
  for (const code of [3, 0]) {
    await process.ready();
    process.tell({ exit: code });
    expect(await process.end()).toBe(`ended with code ${code}`);
  }
});

test("signals for the whole server do not end its child processes", async () => {
  await using process = supervise();
  using logged = lines();
  await process.supervised.start();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.tell({ die: signal });
  process.tell({ add: 1 });
  await process.message();
  expect(logged.all).toEqual([]);
});

/** Process id in the ready message of a worker, or of the worker below a supervisor. */
function pidOf(told: unknown): number {
  if (typeof told !== "object" || told === null) return 0;
  return "pid" in told ? Number(told.pid) : "told" in told ? pidOf(told.told) : 0;
}

test("questions of both sides get their answers, in any order", async () => {
  using logged = lines();
  const late = Promise.withResolvers<string>();
  const onMessage = (question: unknown) => {
    if (question === 1) return late.promise;
    if (question === 2) return "soon";
    throw new Error("no answer");
  };
  await using process = supervise({ onMessage });
  await process.supervised.start();
  const first = process.ask({ relay: 1 });
  expect(await process.ask({ relay: 2 })).toBe("soon");
  expect(await process.ask({ relay: 3 })).toBeUndefined();
  late.resolve("late");
  expect(await first).toBe("late");
  expect(logged.all).toEqual(["Error: no answer"]);
});

test("a question to a process that ends, or does not run, has no answer", async () => {
  using _logged = lines();
  await using process = supervise({ onMessage: (question) => question });
  expect(await process.ask({ relay: 1 })).toBeUndefined();
  await process.supervised.start();
  await process.ready();
  const asked = process.ask({ loop: true });
  process.supervised.restart("for the test");
  expect(await asked).toBeUndefined();
  // The next process starts in a later turn of the event loop, so nobody can answer yet.
  expect(await process.ask({ relay: 2 })).toBeUndefined();
  await process.ready();
  expect(await process.ask({ relay: 3 })).toBe(3);
});

test("a failure that the process reports at its first start is the error, and nothing restarts", async () => {
  await using process = supervise({ data: { fail: "digits.pt has no tensor x" } });
  const message = "digits.pt has no tensor x";
  expect(await failureOf(process.supervised.start())).toMatchObject({ code: "weights_invalid", message });
});

test("a failure that the process reports at a later start leads to another try", async () => {
  using logged = lines();
  let starts = 0;
  await using process = supervise({ start: () => (++starts === 2 ? { fail: "the disk is gone" } : {}) });
  await process.supervised.start();
  process.tell({ exit: 1 });
  expect(await process.end()).toBe("ended with code 1");
  expect(await process.end()).toBe("failed: the disk is gone");
  await process.ready();
  await process.ready();
  expect(starts).toBe(3);
  expect(logged.all).toContain("The worker process failed: the disk is gone; starting it again in 0.1 s");
});

test("a process that dies three times before it is ready is not restarted", async () => {
  using _logged = lines();
  await using process = supervise({ data: { order: { die: "SIGSEGV" } } });
  const message = "the worker process was ended by SIGSEGV, 3 times before it was ready";
  expect(await failureOf(process.supervised.start())).toMatchObject({ code: "processes_unavailable", message });
});

test("a program that cannot be started is not started again", async () => {
  using _logged = lines();
  await using process = supervise({ program: ["/nowhere/sconce"] });
  const message = expect.stringContaining("could not be started (ENOENT");
  expect(await failureOf(process.supervised.start())).toMatchObject({ code: "processes_unavailable", message });
});

test("a process that does not stop is killed after the limit", async () => {
  using logged = lines();
  await using process = supervise({ role: "deaf" });
  await process.supervised.start();
  await process.supervised.stop(50);
  expect(logged.all).toEqual(["The deaf process did not stop within 0.05 s and is killed"]);
});

test("stopping before the process is ready cancels its start", async () => {
  await using process = supervise();
  const failed = failureOf(process.supervised.start());
  await process.supervised.stop(60_000);
  expect((await failed).code).toBe("canceled");
});

for (const way of ["idle", "stuck in a loop"] as const) {
  test(`a process that is ${way} ends when its parent is killed`, async () => {
    using _logged = lines();
    await using process = supervise({ role: "supervisor" });
    const child = pidOf(await process.supervised.start());
    expect(isRunning(child)).toBe(true);
    if (way !== "idle") process.tell({ loop: true });
    process.supervised.restart("for the test");
    await process.end();
    await until(() => !isRunning(child));
  });
}

test("ten deaths leave no process, descriptor, file or folder behind", async () => {
  using _logged = lines();
  await using folder = await tempDir();
  const descriptors = () => readdirSync("/proc/self/fd").length;
  await using process = supervise({ role: "folder", data: { place: folder.path }, clock: hastyClock });
  await process.supervised.start();
  await process.ready();
  process.supervised.restart("once, for what is opened once");
  await process.ready();
  const before = descriptors();
  for (let i = 0; i < 10; i++) {
    process.supervised.restart("for the test");
    await process.end();
    await process.ready();
  }
  expect(descriptors()).toBeLessThanOrEqual(before);
  // Each start has removed the folder of the process before it.
  expect(readdirSync(folder.path)).toHaveLength(1);
  await process.supervised.stop(60_000);
  expect(readdirSync(folder.path)).toEqual([]);
}, 120_000);

/** A clock on which restarts are immediate and time limits never expire. */
const hastyClock: Clock = {
  now: () => 0,
  after(delayMs, task) {
    if (delayMs > 10_000) return () => {};
    const soon = setImmediate(task);
    return () => clearImmediate(soon);
  },
};

test("the first restart is immediate, later delays grow, and a quiet period resets them", () => {
  const backoff = new Backoff(() => 0);
  const delays = Array.from({ length: 10 }, () => backoff.nextMs(1000));
  expect(delays).toEqual([0, 100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
  expect([backoff.nextMs(30_000), backoff.nextMs(0)]).toEqual([0, 100]);
  const early = new Backoff(() => 1);
  expect([early.nextMs(0), early.nextMs(0), early.nextMs(0)]).toEqual([0, 50, 100]);
});

test("a kill is attributed to missing memory if the kernel's count of such kills has risen", () => {
  const folder = mkdtempSync("/tmp/sconce-test-");
  const file = join(folder, "memory.events");
  const write = (count: number) => writeFileSync(file, `low 0\noom 9\noom_kill ${count}\noom_group_kill 0\n`);
  write(4);
  const kills = new OomKills([join(folder, "none"), file]);
  const killed = { exitCode: null, signal: "SIGKILL" } as const;
  expect(deathOf(killed, kills).reason).toBe("was ended by SIGKILL");
  write(5);
  expect(deathOf(killed, kills).reason).toBe("was ended by SIGKILL, probably because memory ran out");
  expect(deathOf(killed, kills).reason).toBe("was ended by SIGKILL");
  rmSync(folder, { recursive: true });
});
