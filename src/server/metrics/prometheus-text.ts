/** Writes metrics as Prometheus text: https://prometheus.io/docs/instrumenting/exposition_formats/ */
import type { Family, Labels } from "../../base/metric-family.ts";

/** Formats metrics as text. @param families metrics of one or more processes; equal series are aggregated */
export function prometheusText(families: readonly Family[]): string {
  const byName = Map.groupBy(families, ({ name }) => name);
  return `${[...byName.values()].map(familyText).join("\n\n")}\n`;
}

function familyText(families: readonly Family[]): string {
  const [{ name = "", help = "", type = "" } = {}] = families;
  const lines = aggregated(families).map((series) => `${keyOf(series)} ${series.value}`);
  return [`# HELP ${name} ${escaped(help)}`, `# TYPE ${name} ${type}`, ...lines].join("\n");
}

/** A series of a metric. The series of a histogram have names such as `NAME_bucket`. */
interface Series {
  readonly name: string;
  readonly labels: Labels;
  readonly value: number;
}

/** Merges series with equal names and labels. @param families metrics of one name */
function aggregated(families: readonly Family[]): Series[] {
  const series = new Map<string, Series>();
  const [{ name = "", aggregator = "sum" } = {}] = families;
  for (const { metricName = name, labels, value } of families.flatMap(({ values }) => values)) {
    const key = keyOf({ name: metricName, labels });
    const known = series.get(key)?.value;
    const sum = known === undefined ? value : aggregators[aggregator](known, value);
    series.set(key, { name: metricName, labels, value: sum });
  }
  return [...series.values()];
}

function keyOf({ name, labels }: Pick<Series, "name" | "labels">): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escaped(text).replaceAll('"', '\\"')}"`);
  return pairs.length === 0 ? name : `${name}{${pairs.join(",")}}`;
}

const aggregators: Readonly<Record<Family["aggregator"], (a: number, b: number) => number>> = {
  sum: (a, b) => a + b,
  max: Math.max,
  first: (a) => a,
};

function escaped(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}
