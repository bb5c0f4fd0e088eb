/** Time limits of many predictions, which share one timer, and the request headers that set them. */
import { afterEach, beforeEach, describe, expect, jest, test } from "bun:test";
import type { InRing } from "../src/base/collections/ring.ts";
import { cancelAfterMsOf, waitMsOf } from "../src/http/request-headers.ts";
import { Deadlines } from "../src/predictions/deadlines.ts";

interface Timed extends InRing<Timed> {
  readonly name: string;
  readonly deadlineMs: number;
}

describe("deadlines", () => {
  let expired: string[];
  let deadlines: Deadlines<Timed>;
  const timed = (name: string, inMs: number): Timed => ({
    name,
    deadlineMs: performance.now() + inMs,
    ring: undefined,
    before: undefined,
    after: undefined,
  });

  beforeEach(() => {
    jest.useFakeTimers();
    expired = [];
    deadlines = new Deadlines(({ name }) => expired.push(name));
  });

  afterEach(() => {
    jest.useRealTimers();
  });

  test("expire in order of time, not of creation", () => {
    for (const [name, ms] of [
      ["b", 200],
      ["a", 100],
      ["c", 300],
    ] as const)
      deadlines.add(timed(name, ms));
    jest.advanceTimersByTime(150);
    expect(expired).toEqual(["a"]);
    jest.advanceTimersByTime(1000);
    expect(expired).toEqual(["a", "b", "c"]);
  });

  test("that are set while others expire are kept", () => {
    deadlines = new Deadlines(({ name }) => {
      expired.push(name);
      if (name === "first") deadlines.add(timed("follower", 50));
    });
    deadlines.add(timed("first", 20));
    deadlines.add(timed("last", 1500));
    jest.advanceTimersByTime(100);
    expect(expired).toEqual(["first", "follower"]);
  });

  test("can be later than the longest timer", () => {
    deadlines.add(timed("next month", 2 ** 31 + 5000));
    jest.advanceTimersByTime(2 ** 31);
    expect(expired).toEqual([]);
    jest.advanceTimersByTime(6000);
    expect(expired).toEqual(["next month"]);
  });
});

describe("Prefer: wait", () => {
  test.each([
    [null, 0],
    ["wait", 60_000],
    ["wait=5", 5000],
    ["Wait = 5", 5000],
    ['wait="5"', 5000],
    ["respond-async, wait=5", 5000],
    ["wait=5; foo", 5000],
    ["wait=300", 300_000],
    ["wait=301", 300_000],
    ["wait=99999999999999999999", 300_000],
    ["wait=0", 0],
    ["wait=-5", 0],
    ["wait=5s", 0],
    ["waiting", 0],
    ["await=5", 0],
  ])("%p waits %p ms", (header, ms) => {
    expect(waitMsOf(header)).toBe(ms);
  });
});

describe("Cancel-After", () => {
  test.each([
    [null, undefined],
    ["5", 5000],
    ["0.25", 250],
    ["0.30000000000000004", 300],
    ["1.0009999999999999", 1001],
    ["999999999.999", 999_999_999_999],
  ])("%p is %p ms", (header, ms) => {
    expect(cancelAfterMsOf(header)).toBe(ms);
  });

  test.each(["0", "0.000", "-1", "1e3", "soon", "", "5, 6", "Infinity", "0.0001", "1000000000", "0x1"])(
    "%p is refused",
    (header) => {
      expect(() => cancelAfterMsOf(header)).toThrow(
        "expected Cancel-After to be a number of seconds from 0.001 to 999999999.999",
      );
    },
  );
});
