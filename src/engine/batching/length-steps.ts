/** Lengths of items on a logarithmic scale, in steps. Items that are few steps apart share a batch. */
import type { ShapeKey } from "../item-check.ts";

/** Steps from a length to its double. Lengths in one step differ by less than a sixteenth. */
const STEPS_PER_OCTAVE = 12;
/**
 * Adjacent steps that may share a batch: half an octave, so lengths (plus `BASE_LENGTH`) differ by less than a factor
 * of √2.
 */
const MAX_SPAN = 6;
/** Added to each length: an item's fixed cost, in elements. It makes differences between short lengths small. */
const BASE_LENGTH = 16;
/**
 * Steps that the search for similar lengths goes in each direction, by the number of padded dimensions. With two
 * dimensions it looks up 121 combinations of steps, with four 81.
 */
const REACH = [0, MAX_SPAN - 1, MAX_SPAN - 1, 1, 1];

/** One step for each padded dimension, or one step for the product of the sizes. */
export type Steps = readonly number[];

export function stepsOf({ padded, length }: Pick<ShapeKey, "padded" | "length">): Steps {
  return padded.size < 2 ? [stepOf(length)] : [...padded.values()].map(stepOf);
}

function stepOf(length: number): number {
  return Math.floor(STEPS_PER_OCTAVE * Math.log2(length + BASE_LENGTH));
}

/** A key for maps: equal steps give equal keys. */
export function placeOf(steps: Steps): string | number {
  return steps.length === 1 ? (steps[0] ?? 0) : steps.join();
}

/**
 * Yields values near `middle` that may share a batch, nearest first.
 */
export function* near<T>(middle: Steps, places: ReadonlyMap<string | number, T>): Generator<T> {
  const least = [...middle];
  const most = [...middle];
  for (const offsets of offsetsOf(middle.length)) {
    const steps = middle.map((step, i) => step + (offsets[i] ?? 0));
    const found = places.get(placeOf(steps));
    const fits = (step: number, i: number) =>
      Math.max(most[i] ?? step, step) - Math.min(least[i] ?? step, step) < MAX_SPAN;
    if (found === undefined || !steps.every(fits)) continue;
    for (const [i, step] of steps.entries()) {
      least[i] = Math.min(least[i] ?? step, step);
      most[i] = Math.max(most[i] ?? step, step);
    }
    yield found;
  }
}

const offsetsByDims: Steps[][] = [];

/**
 * Differences of steps from a position to its neighbours, nearest first. At equal distance shorter lengths go first,
 * because longer ones lengthen the whole batch.
 */
function offsetsOf(dims: number): readonly Steps[] {
  const known = offsetsByDims[dims];
  if (known !== undefined) return known;
  const reach = REACH[dims] ?? 0;
  let offsets: Steps[] = [[]];
  for (let dim = 0; dim < dims; dim++) {
    offsets = offsets.flatMap((before) => Array.from({ length: 2 * reach + 1 }, (_, i) => [...before, i - reach]));
  }
  const distance = (steps: Steps) => steps.reduce((sum, step) => sum + Math.abs(step), 0);
  const growth = (steps: Steps) => steps.reduce((sum, step) => sum + step, 0);
  offsets.sort((a, b) => distance(a) - distance(b) || growth(a) - growth(b));
  offsetsByDims[dims] = offsets;
  return offsets;
}
