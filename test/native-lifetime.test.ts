/** Memory and order of sessions: transferred buffers, concurrent sessions, disposed sessions, and released memory. */
import { describe, expect, test } from "bun:test";
import { float32, type Tensor } from "../src/author/tensor.ts";
import { openSession, type SessionOptions } from "../src/engine/native/binding.ts";
import { keptMemory } from "../src/machine/libtorch/libtorch-env.ts";
import { run } from "./helpers/child-output.ts";
import { fixture } from "./helpers/fixture.ts";
import { sessions } from "./helpers/sessions.ts";
import { filled } from "./helpers/tensors.ts";
import { fixtures } from "./helpers/weights.ts";

const made = fixture(fixtures, 600_000);

const open = sessions();

const session = (file: string, options: Partial<SessionOptions> = {}) =>
  open({ path: made.path(file), inputs: { x: float32() }, outputs: { y: float32() }, ...options });

const codeOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => "fulfilled",
    (error: unknown) => (error instanceof Error && "code" in error ? error.code : error),
  );

describe("buffers", () => {
  const spec = float32(1000);
  const options = { inputs: { x: spec }, outputs: { y: spec } };

  test("may be transferred as soon as run has returned", async () => {
    const opened = await session("identity.pt", options);
    const results: Promise<Tensor[]>[] = [];
    for (let round = 0; round < 50; round++) {
      const items = Array.from({ length: 8 }, (_, i) => new Float32Array(1000).fill(round * 8 + i));
      results.push(opened.run(items.map((data) => [{ dtype: "float32", shape: [1000], data }])));
      structuredClone(items, { transfer: items.map((data) => data.buffer) });
    }
    for (const [round, [y]] of (await Promise.all(results)).entries()) {
      for (let i = 0; i < 8; i++) expect(y?.data[i * 1000 + 999]).toBe(round * 8 + i);
    }
  });
});

describe("concurrent sessions", () => {
  for (const format of ["torchscript", "aotinductor"] as const) {
    test(`that share ${format} weights give equal rows, and outlive the first session`, async () => {
      const fixture = made.get(`${format} float32 one tuple`);
      const first = await session("", { ...fixture, instances: 3 });
      const others = await Promise.all([1, 2].map(() => session("", { ...fixture, path: "", share: first })));
      const expected = await first.run(fixture.items);
      const results = await Promise.all(
        [first, ...others].flatMap((each) => Array.from({ length: 20 }, () => each.run(fixture.items))),
      );
      for (const result of results) expect(result).toEqual(expected);
      await first.dispose();
      expect(await others[0]?.run(fixture.items)).toEqual(expected);
    });
  }

  test("weights of a disposed session cannot be shared", async () => {
    const first = await session("identity.pt");
    await first.dispose();
    expect(await codeOf(session("identity.pt", { share: first }))).toBe("session_closed");
  });

  test("the event loop turns while weights load and a batch runs", async () => {
    const opening = session("slow.pt");
    let turns = 0;
    const beat = setInterval(() => turns++, 1);
    const running = (await opening).run([[filled(30)]]);
    await running;
    clearInterval(beat);
    expect(turns).toBeGreaterThan(1);
  });

  test("the number of threads may change between batches", async () => {
    const fixture = made.get("network");
    const opened = await session("", fixture);
    const before = await opened.run(fixture.items);
    await opened.setThreads(2);
    expect((await opened.run(fixture.items))[0]?.data.length).toBe(before[0]?.data.length ?? 0);
    expect(await codeOf(opened.setThreads(0))).toBe("usage");
  });
});

describe("dispose", () => {
  test("rejects waiting batches, lets the running batch end, and may be called again", async () => {
    const opened = await session("slow.pt");
    const running = opened.run([[filled(100)]]);
    // The session takes the first batch at once, so `setThreads` waits behind it.
    const ahead = await Promise.race([opened.setThreads(1).then(() => "later"), Promise.resolve("now")]);
    expect(ahead).toBe("now");
    const queued = [opened.run([[filled(1)]]), opened.run([[filled(2)]])].map(codeOf);
    const disposed = opened.dispose();
    expect(opened.dispose()).toBe(disposed);
    expect(await Promise.all(queued)).toEqual(["session_closed", "session_closed"]);
    expect(["fulfilled", "session_closed"]).toContain(String(await codeOf(running)));
    await disposed;
    expect(await codeOf(opened.run([[filled(1)]]))).toBe("session_closed");
    expect(await codeOf(opened.setThreads(1))).toBe("session_closed");
    await opened.dispose();
  });

  test("every promise settles once, whenever the session is disposed", async () => {
    for (let round = 0; round < 30; round++) {
      const opened = await session("identity.pt");
      const codes = Array.from({ length: round }, () => codeOf(opened.run([[filled(1)]])));
      if (round % 3 === 0) await codes[Math.floor(round / 2)];
      await opened.dispose();
      for (const code of await Promise.all(codes)) expect(["fulfilled", "session_closed"]).toContain(String(code));
    }
  });

  test("the garbage collector closes a session without references, and other sessions continue", async () => {
    for (let round = 0; round < 20; round++) {
      await openSession({
        path: made.path("identity.pt"),
        device: "cpu",
        threads: 1,
        inputs: { x: float32() },
        outputs: { y: float32() },
      });
    }
    Bun.gc(true);
    const opened = await session("identity.pt");
    expect((await opened.run([[filled(4)]]))[0]?.data[0]).toBe(4);
  });
});

test("memory of large batches is released once batches are small", async () => {
  const script = require.resolve("./helpers/kept-memory-child.ts");
  // The engine process has the same memory settings.
  const env = { ...process.env, ...keptMemory };
  const { stdout } = await run([process.execPath, "--no-install", script, made.path("totals.pt")], { env });
  const { large, small } = JSON.parse(stdout);
  expect(large).toBeGreaterThan(64_000_000);
  expect(small).toBeLessThan(large / 2);
}, 60_000);
