/** Whether outputs are right: answers differ from PyTorch's by float32 rounding, which other batch sizes bring along. */
import type { Output } from "./networks.ts";

const TOLERANCE = 1e-4;

export function areAlike(given: Output, expected: Output): boolean {
  const names = Object.keys(expected);
  return (
    names.length === Object.keys(given).length &&
    names.every((name) => areClose(given[name] ?? [], expected[name] ?? []))
  );
}

export function areClose(given: readonly number[], expected: readonly number[]): boolean {
  return (
    given.length === expected.length &&
    given.every((value, i) => Math.abs(value - (expected[i] ?? Number.NaN)) <= TOLERANCE * (1 + Math.abs(value)))
  );
}
