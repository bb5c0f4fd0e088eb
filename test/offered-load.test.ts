import { expect, test } from "bun:test";
import fc from "fast-check";
import { poissonArrivals, wholeNumbers } from "../bench/arrivals.ts";
import { OfferedLoad } from "../bench/offered.ts";
import { percentile } from "../bench/turns.ts";
import { tempDir } from "./helpers/temp-dir.ts";

test("arrivals come in order, before the time is over, and as often as they are asked for", () => {
  const whole = wholeNumbers();
  const times = poissonArrivals({ perSecond: 1000, seconds: 20, random: () => whole() / 2 ** 32 });
  expect(times).toEqual(times.toSorted((a, b) => a - b));
  expect(times.at(0)).toBeGreaterThan(0);
  expect(times.at(-1)).toBeLessThan(20_000);
  // Their number has a standard deviation of the root of 20,000, some 141.
  expect(Math.abs(times.length - 20_000)).toBeLessThan(5 * 141);
});

test("arrivals keep no distance: as many gaps are short as of a Poisson process", () => {
  const whole = wholeNumbers();
  const times = poissonArrivals({ perSecond: 1000, seconds: 20, random: () => whole() / 2 ** 32 });
  const gaps = times.slice(1).map((time, i) => time - (times[i] ?? 0));
  for (const gapMs of [0.1, 1, 3]) {
    const shorter = gaps.filter((gap) => gap < gapMs).length / gaps.length;
    expect(shorter).toBeCloseTo(1 - Math.exp(-gapMs), 1.5);
  }
});

test("a gap is the mean one times minus the logarithm of what is left of the random number", () => {
  const times = poissonArrivals({ perSecond: 100, seconds: 0.035, random: () => 1 - Math.exp(-1) });
  expect(times.map((time) => Math.round(time * 1e6) / 1e6)).toEqual([10, 20, 30]);
});

test("a percentile is the least value that its share of all values does not exceed", () => {
  const values = [15, 20, 35, 40, 50];
  expect([0.05, 0.3, 0.4, 0.5, 1].map((share) => percentile(values, share))).toEqual([15, 20, 20, 35, 50]);
  fc.assert(
    fc.property(
      fc.array(fc.integer(), { minLength: 1 }),
      fc.double({ min: 0.001, max: 1, noNaN: true }),
      (all, share) => {
        const found = percentile(all, share);
        expect(all).toContain(found);
        expect(all.filter((value) => value <= found).length).toBeGreaterThanOrEqual(share * all.length - 1e-9);
        expect(all.filter((value) => value < found).length).toBeLessThan(share * all.length + 1e-9);
      },
    ),
  );
});

test("a percentile of nothing is no number", () => {
  expect(percentile([], 0.5)).toBeNaN();
});

test("requests come at their rate although no answer does, and what they wait for the first answer counts", async () => {
  await using folder = await tempDir();
  await Bun.write(folder.join("bodies.txt"), '[{"x":1}]\n[{"x":2}]\n');
  const opened = Promise.withResolvers<void>();
  const bodies = new Set<string>();
  const arrivedAt: number[] = [];
  let [held, most, openedAt] = [0, 0, 0];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      arrivedAt.push(performance.now());
      bodies.add(await request.text());
      held += 1;
      most = Math.max(most, held);
      if (held === 150) {
        openedAt = performance.now();
        opened.resolve();
      }
      await opened.promise;
      held -= 1;
      return new Response("{}");
    },
  });
  try {
    await using load = new OfferedLoad({ url: `${server.url.origin}/predictions`, bodies: folder.join("bodies.txt") });
    const done = await load.run({ perSecond: 300, seconds: 1 });
    expect(done.failed).toEqual({ refused: 0, lost: 0, left: 0, unanswered: 0 });
    // More at once than there were connections at first: nobody waited for an answer to be sent.
    expect(most).toBeGreaterThanOrEqual(150);
    // More than one in a hundred waited as long as the tenth, whatever that is here: until 140 others had come.
    expect(done.p99Ms).toBeGreaterThanOrEqual(openedAt - (arrivedAt[9] ?? openedAt));
    expect(bodies).toEqual(new Set(['[{"x":1}]', '[{"x":2}]']));
  } finally {
    await server.stop(true);
  }
});

test("an answer with an error is a failed request, not a fast one", async () => {
  await using folder = await tempDir();
  await Bun.write(folder.join("bodies.txt"), "[]\n");
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("{}", { status: 422 }) });
  try {
    await using load = new OfferedLoad({ url: `${server.url.origin}/predictions`, bodies: folder.join("bodies.txt") });
    const done = await load.run({ perSecond: 200, seconds: 0.5 });
    expect(done.offered).toBeGreaterThan(0);
    expect(done.failed).toEqual({ refused: done.offered, lost: 0, left: 0, unanswered: 0 });
    expect(done.perSecond).toBe(0);
  } finally {
    await server.stop(true);
  }
});

test("a request whose connection ends before its answer is told apart from one that was refused", async () => {
  await using folder = await tempDir();
  await Bun.write(folder.join("bodies.txt"), "[]\n");
  const server = Bun.listen({ port: 0, hostname: "127.0.0.1", socket: { data: (socket) => void socket.end() } });
  try {
    await using load = new OfferedLoad({
      url: `http://127.0.0.1:${server.port}/predictions`,
      bodies: folder.join("bodies.txt"),
    });
    const done = await load.run({ perSecond: 100, seconds: 0.3 });
    expect(done.offered).toBeGreaterThan(0);
    expect(done.failed).toEqual({ refused: 0, lost: done.offered, left: 0, unanswered: 0 });
  } finally {
    server.stop(true);
  }
});
