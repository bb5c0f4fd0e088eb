/** Pixels as floats with the mean and the deviation that a network was trained with. */
import { SconceError } from "../errors.ts";
import { type Channels, inTurns, type Layout, type Size, stridesOf } from "./raster.ts";

/** Each one number, or one a channel in the order of the result; of values from 0 to 1. */
export interface Normalization {
  /** Is subtracted. Default: 0. */
  readonly mean?: number | readonly number[];
  /** Is divided by. Default: 1. */
  readonly std?: number | readonly number[];
}

export interface Normalized extends Size {
  readonly channels: Channels;
  readonly layout: Layout;
}

/**
 * @returns the values of torchvision's `ToTensor` and `Normalize`, bit by bit
 * @throws SconceError `item_failed` for another count of numbers than channels
 */
export async function normalize(
  data: Uint8Array,
  { width, height, channels, layout }: Normalized,
  normalization: Normalization,
): Promise<Float32Array<ArrayBuffer>> {
  const tables = tablesOf(normalization, channels);
  const { pixelStride, channelStride } = stridesOf({ width, height }, channels, layout);
  const result = new Float32Array(data.length);
  await inTurns({ row: 0, endRow: height, width: width * channels }, (row, endRow) => {
    for (const [channel, table] of tables.entries()) {
      let at = channel * channelStride + row * width * pixelStride;
      for (let left = (endRow - row) * width; left > 0; left--, at += pixelStride) {
        result[at] = table[data[at] ?? 0] ?? 0;
      }
    }
  });
  return result;
}

/** What each of the 256 values becomes, for each channel; rounded to float32 at every step, as there. */
function tablesOf({ mean = 0, std = 1 }: Normalization, channels: Channels): Float32Array[] {
  const [means, deviations] = [listOf("mean", mean, channels), listOf("std", std, channels)];
  return means.map((mean, channel) =>
    Float32Array.from({ length: 256 }, (_, value) => {
      const centred = Math.fround(Math.fround(value / 255) - Math.fround(mean));
      return centred / Math.fround(deviations[channel] ?? 1);
    }),
  );
}

function listOf(name: string, given: number | readonly number[], channels: Channels): readonly number[] {
  const list = typeof given === "number" ? Array<number>(channels).fill(given) : given;
  if (list.length === channels) return list;
  throw new SconceError(
    "item_failed",
    `pixels(): normalize.${name} has ${list.length} numbers for ${channels} channels; give one, or one a channel`,
  );
}
