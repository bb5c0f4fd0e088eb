/** Normalization of pixels to floats with the mean and deviation used in training. */
import { SconceError } from "../base/errors.ts";

/**
 * Mean and deviation for pixel values from 0 to 1: a number for all channels, or a list in the order of the channels.
 */
export interface Normalization {
  /** Number to subtract from each value. Default: 0. */
  readonly mean?: number | readonly number[];
  /** Divisor of each value, after the subtraction. Default: 1. */
  readonly std?: number | readonly number[];
}

/**
 * Expands mean and deviation to one number per channel.
 * @throws SconceError `item_failed` when a list's length differs from the number of channels
 */
export function perChannel({ mean = 0, std = 1 }: Normalization, channels: number) {
  return { mean: listOf("mean", mean, channels), std: listOf("std", std, channels) };
}

function listOf(name: string, given: number | readonly number[], channels: number): readonly number[] {
  const list = typeof given === "number" ? Array<number>(channels).fill(given) : given;
  if (list.length === channels) return list;
  throw new SconceError(
    "item_failed",
    `pixels(): normalize.${name} has ${list.length} numbers for ${channels} channels; give one number, or one for each channel`,
  );
}
