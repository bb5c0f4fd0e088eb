/**
 * Counters and histograms as numbers in shared memory. Each front has a row, and their supervisor the last
 * one, so the counts of a killed process remain.
 */
import {
  batchCauses,
  failureReasons,
  queueFaults,
  refusals,
  restartCauses,
  routeNames,
  routes,
  stages,
  statuses,
  webhookResults,
} from "../../base/labels.ts";
import type { Family, Labels } from "../../base/metric-family.ts";

interface Declared {
  readonly name: string;
  readonly help: string;
  /** Upper bounds of a histogram; undefined for a counter. */
  readonly bounds: readonly number[] | undefined;
  /** For each series: the index of its first number, and its labels. */
  readonly series: readonly (readonly [place: number, labels: Labels])[];
  /** Whether a scrape includes a series whose numbers are all 0. */
  readonly showsZero: (labels: Labels) => boolean;
}

export const seconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
export const sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

const declared: Declared[] = [];
/** For each number of a row, the name of its metric. */
export const slots: string[] = [];

/** Declares a counter with a number for each set of labels. @returns index of the first number */
function counter(
  name: string,
  help: string,
  labels: readonly Labels[] = [{}],
  showsZero = (_: Labels) => true,
): number {
  const first = slots.length;
  declared.push({
    name,
    help,
    bounds: undefined,
    series: labels.map((each) => [slots.push(name) - 1, each]),
    showsZero,
  });
  return first;
}

/**
 * Declares a histogram. It has a number for each bucket, one for values above all bounds, and the sum. @returns index
 * of the first number
 */
function histogram(
  name: string,
  help: string,
  bounds: readonly number[],
  labels: readonly Labels[] = [{}],
  showsZero = (_: Labels) => true,
): number {
  const first = slots.length;
  const series = labels.map((each) => {
    const place = slots.length;
    for (let i = 0; i < bounds.length + 2; i++) slots.push(name);
    return [place, each] as const;
  });
  declared.push({ name, help, bounds, series, showsZero });
  return first;
}

const outcomes = [{ status: "success" }, ...failureReasons.map((reason) => ({ status: "failed", reason }))];

/** Index of each metric's first number. Outcomes are in this order: success, then `failureReasons`. */
export const places = {
  /** Items in the engine's queue, and bytes held for it. Not scraped: the fronts of a server read each other's. */
  readyItems: slots.push("ready") - 1,
  readyBytes: slots.push("ready") - 1,
  predictions: counter(
    "sconce_predictions_total",
    "Predictions that ended, by outcome, and why they failed.",
    outcomes,
  ),
  items: counter("sconce_items_total", "Inputs that ended, by outcome, and why they failed.", outcomes),
  requests: counter(
    "sconce_http_requests_total",
    "Requests that were answered, by route and status code.",
    routeNames().flatMap((route) => statuses.map((code) => ({ route, code: String(code) }))),
    ({ route, code }) =>
      routeNames().some((name) => name === route && routes[name].some((known) => `${known}` === code)),
  ),
  requestSeconds: histogram(
    "sconce_http_request_seconds",
    "From a request to the start of its answer, by route. Routes without a request are left out.",
    seconds,
    routeNames().map((route) => ({ route })),
    () => false,
  ),
  refused: counter(
    "sconce_requests_rejected_total",
    "Requests answered with a problem, by status code and cause.",
    Object.entries(refusals).map(([cause, code]) => ({ code: String(code), cause })),
  ),
  latency: histogram("sconce_prediction_seconds", "From creation to the end of a prediction.", seconds),
  failedSeconds: counter(
    "sconce_failed_prediction_seconds_total",
    "Time of the failed predictions from creation to their end.",
  ),
  stages: histogram(
    "sconce_stage_seconds",
    "Time of each stage: decode of a request, the others of an input; forward is that of its whole batch; preprocess is without preprocess_wait.",
    seconds,
    stages.map((stage) => ({ stage })),
  ),
  batches: counter(
    "sconce_batches_total",
    "Batches that ran, by the cause of their start.",
    batchCauses.map((cause) => ({ cause })),
  ),
  batchSize: histogram("sconce_batch_size", "Items of a batch.", sizes),
  batchSeconds: histogram("sconce_batch_seconds", "Time from the dispatch of a batch to its rows.", seconds),
  batchWait: histogram("sconce_batch_wait_seconds", "Wait of the oldest item of a batch for its dispatch.", seconds),
  queueFaults: counter(
    "sconce_queue_faults_total",
    "Failed commands to the queue in Redis, by reason.",
    queueFaults.map((reason) => ({ reason })),
  ),
  queueTaken: counter("sconce_queue_deliveries_total", "Predictions that this replica took from the queue."),
  queueReclaimed: counter("sconce_queue_reclaimed_total", "Taken predictions that another replica had before."),
  queueGivenUp: counter(
    "sconce_queue_given_up_total",
    "Predictions that failed because two replicas ended while they ran them.",
  ),
  engineRestarts: counter(
    "sconce_engine_restarts_total",
    "Restarts of the engine process, by cause of the end.",
    restartCauses.map((reason) => ({ reason })),
  ),
  webhooks: counter(
    "sconce_webhooks_total",
    "Attempts to send messages to webhooks, by result.",
    webhookResults.map((result) => ({ result })),
  ),
  lag: histogram(
    "sconce_event_loop_lag_seconds",
    "Delay of a timer of the thread that answers clients. The thread answered no other request meanwhile.",
    seconds,
  ),
};

/** How many numbers a histogram of seconds has for each set of labels. */
export const SECONDS_STRIDE = seconds.length + 2;

export function observe(
  numbers: Float64Array,
  place: number,
  bounds: readonly number[],
  value: number,
  count = 1,
): void {
  let i = 0;
  while (i < bounds.length && value > (bounds[i] ?? 0)) i++;
  add(numbers, place + i, count);
  add(numbers, place + bounds.length + 1, value * count);
}

export function add(numbers: Float64Array, place: number, count: number): void {
  numbers[place] = (numbers[place] ?? 0) + count;
}

/** Adds up the rows of all processes, and returns the sums as metrics. */
export function familiesOf(rows: readonly Float64Array[]): Family[] {
  const sums = new Float64Array(slots.length);
  for (const row of rows) for (let i = 0; i < sums.length; i++) add(sums, i, row[i] ?? 0);
  return declared.map(({ name, help, bounds, series, showsZero }) => ({
    name,
    help,
    type: bounds === undefined ? "counter" : "histogram",
    aggregator: "sum",
    values: series.flatMap(([place, labels]) => {
      const numbers = sums.subarray(place, place + (bounds === undefined ? 1 : bounds.length + 1));
      if (!showsZero(labels) && numbers.every((number) => number === 0)) return [];
      if (bounds !== undefined) return bucketsOf(name, labels, bounds, sums.subarray(place));
      return [{ labels, value: sums[place] ?? 0 }];
    }),
  }));
}

function bucketsOf(name: string, labels: Labels, bounds: readonly number[], numbers: Float64Array): Family["values"] {
  let count = 0;
  const buckets = [...bounds.map(String), "+Inf"].map((le, i) => {
    count += numbers[i] ?? 0;
    return { labels: { le, ...labels }, value: count, metricName: `${name}_bucket` };
  });
  const sum = numbers[bounds.length + 1] ?? 0;
  return [
    ...buckets,
    { labels, value: sum, metricName: `${name}_sum` },
    { labels, value: count, metricName: `${name}_count` },
  ];
}
