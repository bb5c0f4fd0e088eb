/** Writes metrics as Prometheus text: https://prometheus.io/docs/instrumenting/exposition_formats/ */
import type { Family } from "./counts.ts";

export const prometheusType = "text/plain; version=0.0.4; charset=utf-8";

/** @param families of one or more processes; series with equal names and labels are aggregated */
export function prometheusText(families: readonly Family[]): string {
  const byName = Map.groupBy(families, ({ name }) => name);
  return `${[...byName.values()].map(familyText).join("\n\n")}\n`;
}

function familyText(families: readonly Family[]): string {
  const series = new Map<string, number>();
  const [{ name = "", help = "", type = "", aggregator = "sum" } = {}] = families;
  for (const { metricName = name, labels, value } of families.flatMap(({ values }) => values)) {
    const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escaped(text).replaceAll('"', '\\"')}"`);
    const key = pairs.length === 0 ? metricName : `${metricName}{${pairs.join(",")}}`;
    const known = series.get(key);
    series.set(key, known === undefined ? value : aggregators[aggregator](known, value));
  }
  const lines = [...series].map(([key, value]) => `${key} ${value}`);
  return [`# HELP ${name} ${escaped(help)}`, `# TYPE ${name} ${type}`, ...lines].join("\n");
}

const aggregators: Readonly<Record<Family["aggregator"], (a: number, b: number) => number>> = {
  sum: (a, b) => a + b,
  max: Math.max,
  first: (a) => a,
};

function escaped(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}
