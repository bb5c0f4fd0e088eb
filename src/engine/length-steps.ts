/** Lengths in steps: items of near lengths, in each padded dimension, go together. */

/** Steps between a length and its double: lengths in one step differ by less than a tenth. */
const STEPS_PER_OCTAVE = 8;
/** Steps side by side that may share a batch: half an octave, so that no length is beyond √2 times another. */
const MAX_SPAN = 4;
/** What a batch costs beside its elements, in elements: below this, lengths matter little and are taken for nearly alike. */
const BASE_LENGTH = 16;
/** How far others are looked for, by the number of padded dimensions; there are 49 places around one with two, and 81 with four. */
const REACH = [0, MAX_SPAN - 1, MAX_SPAN - 1, 1, 1];

/** What items go together by. */
export interface Lengths {
  /** The padded sizes by name. */
  readonly padded?: ReadonlyMap<string, number> | undefined;
  /** Their product, where they are not given one by one; 0 or left out where nothing is padded. */
  readonly length?: number;
}

/** One for each padded dimension, or one for all that is known. */
export type Steps = readonly number[];

export function stepsOf({ padded, length = 0 }: Lengths): Steps {
  if (padded === undefined || padded.size < 2) return [stepOf(length)];
  return Array.from(padded.values(), stepOf);
}

function stepOf(length: number): number {
  return Math.floor(STEPS_PER_OCTAVE * Math.log2(length + BASE_LENGTH));
}

/** A key of a map. */
export function placeOf(steps: Steps): string | number {
  return steps.length === 1 ? (steps[0] ?? 0) : steps.join();
}

/** What there is in the places around `middle`, which may go together with it and with each other; the nearest first. */
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

/** The nearest first; a shorter one before a longer one, which makes all longer. */
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
