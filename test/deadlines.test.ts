/** The request headers that set time limits. */
import { describe, expect, test } from "bun:test";
import { cancelAfterMsOf, waitMsOf } from "../src/http/request-headers.ts";

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
});
