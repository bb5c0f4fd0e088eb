/** Pixels as floats with the mean and the deviation that a network was trained with. */
import { SconceError } from "../errors.ts";

/** Each one number, or one a channel in the order of the result; of values from 0 to 1. */
export interface Normalization {
  /** Is subtracted. Default: 0. */
  readonly mean?: number | readonly number[];
  /** Is divided by. Default: 1. */
  readonly std?: number | readonly number[];
}

/**
 * @returns one number a channel of each
 * @throws SconceError `item_failed` for another count of numbers than channels
 */
export function perChannel({ mean = 0, std = 1 }: Normalization, channels: number) {
  return { mean: listOf("mean", mean, channels), std: listOf("std", std, channels) };
}

function listOf(name: string, given: number | readonly number[], channels: number): readonly number[] {
  const list = typeof given === "number" ? Array<number>(channels).fill(given) : given;
  if (list.length === channels) return list;
  throw new SconceError(
    "item_failed",
    `pixels(): normalize.${name} has ${list.length} numbers for ${channels} channels; give one, or one a channel`,
  );
}
