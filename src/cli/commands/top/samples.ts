/** Reads metrics in Prometheus' text format: https://prometheus.io/docs/instrumenting/exposition_formats/ */

export type Labels = Readonly<Record<string, string>>;

interface Sample {
  readonly labels: Labels;
  readonly value: number;
}

/** All metrics of one reading of /metrics. */
export class Samples {
  readonly atMs = performance.now();
  readonly #byName = new Map<string, Sample[]>();

  constructor(text: string) {
    for (const [, name = "", labels = "", value = ""] of text.matchAll(/^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/gm)) {
      const own = this.#byName.get(name) ?? [];
      own.push({ labels: labelsOf(labels), value: Number(value.replace(/^\+Inf$/, "Infinity")) });
      this.#byName.set(name, own);
    }
  }

  has(name: string): boolean {
    return this.#byName.has(name);
  }

  /** Sum of the series that have the given labels; 0 without such a series. */
  sum(name: string, labels: Labels = {}): number {
    return this.#matching(name, labels).reduce((sum, { value }) => sum + value, 0);
  }

  /** The largest value of the series; 0 without a series. */
  max(name: string): number {
    return Math.max(0, ...this.#matching(name, {}).map(({ value }) => value));
  }

  /** Sums of the series, grouped by the values of a label. */
  by(name: string, label: string, labels: Labels = {}): Map<string, number> {
    const sums = new Map<string, number>();
    for (const { labels: own, value } of this.#matching(name, labels)) {
      const key = own[label] ?? "";
      sums.set(key, (sums.get(key) ?? 0) + value);
    }
    return sums;
  }

  labels(name: string): Labels[] {
    return this.#matching(name, {}).map(({ labels }) => labels);
  }

  /** Upper bounds of a histogram, each with its cumulative count: the sum over all series with the given labels. */
  buckets(name: string, labels: Labels = {}): [bound: number, count: number][] {
    return [...this.by(`${name}_bucket`, "le", labels)]
      .map(([le, count]): [number, number] => [le === "+Inf" ? Infinity : Number(le), count])
      .sort(([a], [b]) => a - b);
  }

  #matching(name: string, labels: Labels): Sample[] {
    const own = this.#byName.get(name) ?? [];
    return own.filter((sample) => Object.entries(labels).every(([label, value]) => sample.labels[label] === value));
  }
}

const escapes: Readonly<Record<string, string>> = { "\\\\": "\\", '\\"': '"', "\\n": "\n" };

function labelsOf(text: string): Labels {
  const pairs = [...text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)];
  return Object.fromEntries(
    pairs.map(([, name = "", value = ""]) => [name, value.replace(/\\./g, (at) => escapes[at] ?? at)]),
  );
}

/**
 * Quantile of the values that a histogram counted between two readings. Interpolates linearly within a bucket, as
 * Prometheus' `histogram_quantile`.
 * @param share from 0 to 1
 * @returns NaN without values
 */
export function quantileBetween(
  name: string,
  share: number,
  before: Samples,
  after: Samples,
  labels: Labels = {},
): number {
  const old = new Map(before.buckets(name, labels));
  const buckets = after.buckets(name, labels).map(([bound, count]) => [bound, count - (old.get(bound) ?? 0)] as const);
  const total = buckets.at(-1)?.[1] ?? 0;
  if (total <= 0) return Number.NaN;
  let [lowBound, lowCount] = [0, 0];
  for (const [bound, count] of buckets) {
    if (count >= share * total) {
      if (bound === Infinity) return lowBound;
      return lowBound + (bound - lowBound) * ((share * total - lowCount) / Math.max(count - lowCount, 1));
    }
    [lowBound, lowCount] = [bound, count];
  }
  return lowBound;
}
