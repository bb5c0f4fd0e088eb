/** The metrics of several processes are joined into one text for Prometheus. */
import { expect, test } from "bun:test";
import type { Family } from "../src/base/metric-family.ts";
import { prometheusText } from "../src/server/metrics/prometheus-text.ts";

function gauge(aggregator: Family["aggregator"], values: Family["values"], help = "Help"): Family {
  return { name: aggregator, help, type: "gauge", aggregator, values };
}

test("series with equal names are combined by sum, maximum or first value", () => {
  const ofProcess = (a: number, b: number) =>
    (["sum", "max", "first"] as const).map((aggregator) =>
      gauge(aggregator, [
        { labels: { part: "a" }, value: a },
        { labels: { part: "b" }, value: b },
      ]),
    );
  const text = prometheusText([...ofProcess(1, 20), ...ofProcess(10, 2)]);
  expect(text.split("\n").filter((line) => line !== "" && !line.startsWith("#"))).toEqual([
    'sum{part="a"} 11',
    'sum{part="b"} 22',
    'max{part="a"} 10',
    'max{part="b"} 20',
    'first{part="a"} 1',
    'first{part="b"} 20',
  ]);
});

test("backslashes, quotes and line ends are escaped, and series without labels have no braces", () => {
  const families = [
    gauge("sum", [{ labels: { x: 'C:\\ "quoted"\nline' }, value: 0.5 }], "Two\nlines"),
    gauge("max", [{ labels: {}, value: 1e21 }]),
  ];
  expect(prometheusText(families)).toBe(String.raw`# HELP sum Two\nlines
# TYPE sum gauge
sum{x="C:\\ \"quoted\"\nline"} 0.5

# HELP max Help
# TYPE max gauge
max 1e+21
`);
});
