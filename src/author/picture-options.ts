/** Schemas of the options of `Image`, and the normalization of pixels. */
import * as z from "zod";
import { SconceError } from "../base/errors.ts";
import { anything, oneOf, optionsOf, wholeNumber } from "./options.ts";
import { filters } from "./pixels.ts";
import { fits } from "./placement.ts";

export const channelCounts = [1, 3, 4] as const;
/** Numbers of channels for `Image.fromPixels`. */
export const rawChannelCounts = [1, 2, 3, 4] as const;
export const layouts = ["hwc", "chw"] as const;
export const colourOrders = ["rgb", "bgr"] as const;
export const encodings = ["png", "jpeg", "webp"] as const;

const colour = z.number("give numbers from 0 to 255").min(0, "give 0 to 255").max(255, "give 0 to 255");
const numbers = z.union([z.number(), z.array(z.number())], "give a number, or one for each channel").optional();
const normalization = optionsOf({ mean: numbers, std: numbers });

/** Options of `pixels()`. */
export const pixelOptions = optionsOf({
  width: wholeNumber,
  height: wholeNumber,
  shortSide: wholeNumber,
  crop: wholeNumber,
  fit: oneOf(fits),
  channels: oneOf(channelCounts),
  filter: oneOf(filters),
  background: z.tuple([colour, colour, colour], "give red, green and blue from 0 to 255").optional(),
  order: oneOf(colourOrders),
  layout: oneOf(layouts),
  signal: z.instanceof(AbortSignal, { error: "give an AbortSignal" }).optional(),
  normalize: normalization.optional(),
});
/** Options of `pixels()` with an object as `crop`. */
export const croppedPixelOptions = pixelOptions.extend({
  crop: optionsOf({ width: wholeNumber.unwrap(), height: wholeNumber.unwrap() }),
});

/** Pixels for `Image.fromPixels`, which checks the numbers of values. */
export const rawPixels = optionsOf({
  data: z.union([z.instanceof(Uint8Array), z.instanceof(Uint8ClampedArray)], "give a Uint8Array"),
  width: anything,
  height: anything,
  channels: z.literal(rawChannelCounts),
  layout: oneOf(layouts),
});
const quality = z.number("give a number").min(1, "give 1 to 100").max(100, "give 1 to 100");
export const encodeOptions = optionsOf({ format: oneOf(encodings), quality: quality.optional() });

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
