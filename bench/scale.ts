/** Axes: where a value lies between two ends, and which values are marked. */

export interface Scale {
  /** Where a value lies, in the units of the range. */
  at(value: number): number;
  /** The marked values, from the first to the last. */
  readonly ticks: readonly number[];
}

export interface ScaleOptions {
  /** The least and the greatest value; for a logarithmic scale above 0. */
  readonly domain: readonly [number, number];
  /** Where these lie. */
  readonly range: readonly [number, number];
}

/** Marks at most `marks + 1` values: 1, 2 or 5 times a power of ten apart. */
export function linearScale({ domain, range, marks = 6 }: ScaleOptions & { readonly marks?: number }): Scale {
  const [low, high] = domain;
  const step = roundStep((high - low) / marks);
  // Counted in steps, so that no error adds up.
  const first = Math.ceil((low / step) * (1 - Math.sign(low) * QUOTIENT_SLACK));
  const last = Math.floor((high / step) * (1 + Math.sign(high) * QUOTIENT_SLACK));
  const ticks = Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
  const within = ticks.filter((tick) => tick >= low && tick <= high);
  return { at: between(domain, range, (value) => value), ticks: within };
}

/** Marks the powers of the base, or 1, 2 and 5 times the powers of ten. */
export function logScale({ domain, range, base }: ScaleOptions & { readonly base: 2 | 10 }): Scale {
  const [low, high] = domain;
  const ticks: number[] = [];
  for (let power = base ** Math.floor(Math.log(low) / Math.log(base) - SLACK); power <= high * base; power *= base) {
    for (const times of base === 2 ? [1] : [1, 2, 5]) {
      const tick = Number((power * times).toPrecision(12));
      if (tick >= low * (1 - SLACK) && tick <= high * (1 + SLACK)) ticks.push(tick);
    }
  }
  return { at: between(domain, range, Math.log), ticks };
}

/** Moves places apart that are nearer than `gap`, as little as it takes, and keeps their order; what was highest stays below `max`. */
export function spreadApart(places: readonly number[], { gap, max }: { gap: number; max: number }): number[] {
  const order = places.map((_, i) => i).sort((a, b) => (places[a] ?? 0) - (places[b] ?? 0));
  const moved = [...places];
  let least = Number.NEGATIVE_INFINITY;
  for (const i of order) {
    least = Math.max(moved[i] ?? 0, least + gap);
    moved[i] = least;
  }
  let most = max;
  for (const i of order.toReversed()) {
    most = Math.min(moved[i] ?? 0, most);
    moved[i] = most;
    most -= gap;
  }
  return moved;
}

/** A share of a value: what rounding may do. */
const SLACK = 1e-9;
/** The same of a division: of a number of steps, which may be large. */
const QUOTIENT_SLACK = 1e-12;

function roundStep(atLeast: number): number {
  const power = 10 ** Math.floor(Math.log10(atLeast));
  const times = [1, 2, 5, 10].find((each) => each * power >= atLeast * (1 - SLACK)) ?? 10;
  return times * power;
}

function between(
  [low, high]: readonly [number, number],
  [start, end]: readonly [number, number],
  measure: (value: number) => number,
): (value: number) => number {
  const [from, to] = [measure(low), measure(high)];
  return (value) => start + ((measure(value) - from) / (to - from)) * (end - start);
}
