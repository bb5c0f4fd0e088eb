/** Durations as texts for people. */
import { expect, test } from "bun:test";
import { milliseconds } from "../src/base/milliseconds.ts";

test.each([
  [0.1234, "0.12 ms"],
  [1.26, "1.3 ms"],
  [99.9, "100 ms"],
  [123.4, "123 ms"],
  [123_456, "123456 ms"],
])("%d is printed as %s", (ms, text) => {
  expect(milliseconds(ms)).toBe(text);
});
