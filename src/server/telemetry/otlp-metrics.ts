/** Converts the metrics of a server to the data model of OpenTelemetry. */
import { type HrTime, ValueType } from "@opentelemetry/api";
import type { Resource } from "@opentelemetry/resources";
import {
  AggregationTemporality,
  type CollectionResult,
  DataPointType,
  type MetricData,
  type MetricProducer,
} from "@opentelemetry/sdk-metrics";
import { version } from "../../../package.json";
import type { Family, Labels } from "../metrics/counts.ts";
import { aggregated, type Series } from "../metrics/prometheus-text.ts";

export class ServerMetrics implements MetricProducer {
  readonly #read: () => Promise<readonly Family[]>;
  readonly #resource: Resource;
  readonly #startTime = now();

  /** @param read returns the metrics of all HTTP processes, as for a Prometheus scrape */
  constructor(resource: Resource, read: () => Promise<readonly Family[]>) {
    this.#resource = resource;
    this.#read = read;
  }

  async collect(): Promise<CollectionResult> {
    const families = await this.#read();
    const times = { startTime: this.#startTime, endTime: now() };
    const metrics = [...Map.groupBy(families, ({ name }) => name).values()].map((each) => metricOf(each, times));
    const scopeMetrics = [{ scope: { name: "sconce", version }, metrics }];
    return { resourceMetrics: { resource: this.#resource, scopeMetrics }, errors: [] };
  }
}

interface Times {
  readonly startTime: HrTime;
  readonly endTime: HrTime;
}

function now(): HrTime {
  const ms = Date.now();
  return [Math.floor(ms / 1000), (ms % 1000) * 1e6];
}

/** Converts a metric. @param families metrics of one name, from one or more processes */
function metricOf(families: readonly Family[], times: Times): MetricData {
  const [{ name = "", help = "", type = "gauge" } = {}] = families;
  const series = aggregated(families);
  const descriptor = { name, description: help, unit: unitOf(name), valueType: ValueType.DOUBLE };
  const base = { descriptor, aggregationTemporality: AggregationTemporality.CUMULATIVE };
  if (type === "histogram") {
    return { ...base, dataPointType: DataPointType.HISTOGRAM, dataPoints: histogramsOf(series, times) };
  }
  const dataPoints = series.map(({ labels, value }) => ({ ...times, attributes: labels, value }));
  return type === "counter"
    ? { ...base, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints }
    : { ...base, dataPointType: DataPointType.GAUGE, dataPoints };
}

/** The unit at the end of the metric's Prometheus name, as a UCUM code; `1` without a unit. */
function unitOf(name: string): string {
  if (/_seconds(_total)?$/.test(name)) return "s";
  return /_bytes(_total)?$/.test(name) ? "By" : "1";
}

/** Converts the series of a histogram. @param series cumulative buckets, sums and counts of one or more histograms */
function histogramsOf(series: readonly Series[], times: Times) {
  const attributesOf = ({ labels: { le: _, ...attributes } }: Series): Labels => attributes;
  const byLabels = Map.groupBy(series, (each) => JSON.stringify(Object.entries(attributesOf(each)).sort()));
  return [...byLabels.values()].map((each) => {
    const buckets = each.filter(({ name }) => name.endsWith("_bucket"));
    const boundaries = buckets.map(({ labels }) => Number(labels.le)).filter(Number.isFinite);
    const counts = buckets.map(({ value }, i) => value - (buckets[i - 1]?.value ?? 0));
    const read = (end: string) => each.find(({ name }) => name.endsWith(end))?.value ?? 0;
    const value = { buckets: { boundaries, counts }, sum: read("_sum"), count: read("_count") };
    const [first] = each;
    return { ...times, attributes: first === undefined ? {} : attributesOf(first), value };
  });
}
