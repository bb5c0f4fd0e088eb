/** What the server counts, as Prometheus text. */
import { AggregatorRegistry, Counter, Gauge, Histogram, Registry } from "prom-client";
import type { BatchObserver, BatchRun } from "./engine/engine.ts";

const batchSizes = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
const seconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** What is counted when it is asked for. */
export interface Gauges {
  readonly active: number;
  readonly queuedItems: number;
  readonly queuedBytes: number;
  readonly retained: number;
  readonly retainedBytes: number;
  readonly readyItems: number;
  readonly readyBytes: number;
  /** That this process holds, by what for. */
  readonly memory: Readonly<Record<string, number>>;
  /** Most of all processes of the server. */
  readonly memoryLimit: number;
}

/** A counter that is told to the library when it is asked for: looking labels up costs more than all else about a small prediction's end. */
class Tally {
  readonly #counts = new Map<string, number>();

  constructor({ name, help, label, registry }: { name: string; help: string; label: string; registry: Registry }) {
    const counts = this.#counts;
    new Counter({
      name,
      help,
      labelNames: [label],
      registers: [registry],
      collect() {
        for (const [value, count] of counts) this.inc({ [label]: value }, count);
        counts.clear();
      },
    });
  }

  add(value: string, count: number): void {
    this.#counts.set(value, (this.#counts.get(value) ?? 0) + count);
  }
}

/** The server's metrics. Names and units follow Prometheus' conventions: base units, `_total` for counters. */
export class Metrics implements BatchObserver {
  readonly #registry = new Registry();
  readonly #predictions = this.#tally("sconce_predictions_total", "Predictions that ended, by outcome.", "status");
  readonly #items = this.#tally("sconce_items_total", "Inputs that ended, by outcome.", "status");
  readonly #rejected = this.#tally(
    "sconce_requests_rejected_total",
    "Requests answered with a problem, by status code.",
    "code",
  );
  readonly #latency = this.#histogram(
    "sconce_prediction_seconds",
    "From creation to the end of a prediction.",
    seconds,
  );
  readonly #batchSize = this.#histogram("sconce_batch_size", "Items of a batch.", batchSizes);
  readonly #batchSeconds = this.#histogram("sconce_batch_seconds", "From a batch's dispatch to its rows.", seconds);
  readonly #waitSeconds = this.#histogram(
    "sconce_batch_wait_seconds",
    "Wait of a batch's oldest item for its dispatch.",
    seconds,
  );

  readonly #lag = this.#histogram(
    "sconce_event_loop_lag_seconds",
    "How late the thread that answers clients was for a timer: for so long nothing else was answered.",
    seconds,
  );

  ran({ size, waitMs, runMs }: BatchRun): void {
    this.#batchSize.observe(size);
    this.#batchSeconds.observe(runMs / 1000);
    this.#waitSeconds.observe(waitMs / 1000);
  }

  predictionEnded(prediction: { status: string; seconds: number; itemsSucceeded: number; itemsFailed: number }): void {
    this.#predictions.add(prediction.status, 1);
    this.#latency.observe(prediction.seconds);
    if (prediction.itemsSucceeded > 0) this.#items.add("success", prediction.itemsSucceeded);
    if (prediction.itemsFailed > 0) this.#items.add("failed", prediction.itemsFailed);
  }

  loopHeld(seconds: number): void {
    this.#lag.observe(seconds);
  }

  rejected(code: number): void {
    this.#rejected.add(String(code), 1);
  }

  /** Gauges are read when they are asked for, not kept up to date. */
  watch(counts: () => Gauges): void {
    const gauge = (name: string, help: string, read: () => number) =>
      new Gauge({
        name,
        help,
        registers: [this.#registry],
        collect() {
          this.set(read());
        },
      });
    gauge("sconce_predictions_active", "Predictions that have not ended.", () => counts().active);
    gauge("sconce_queued_items", "Inputs that were accepted and not yet begun.", () => counts().queuedItems);
    gauge("sconce_queued_bytes", "Body bytes of the predictions that have not ended.", () => counts().queuedBytes);
    gauge("sconce_ready_items", "Items that are ready and wait for a batch.", () => counts().readyItems);
    gauge("sconce_ready_bytes", "Tensor bytes of the items that wait for a batch.", () => counts().readyBytes);
    gauge("sconce_retained_predictions", "Ended predictions that can still be read.", () => counts().retained);
    gauge("sconce_retained_bytes", "Bytes of their results.", () => counts().retainedBytes);
    new Gauge({
      name: "sconce_memory_bytes",
      help: "Bytes that are held for clients, by what they are.",
      labelNames: ["part"],
      registers: [this.#registry],
      collect() {
        for (const [part, bytes] of Object.entries(counts().memory)) this.set({ part }, bytes);
      },
    });
    new Gauge({
      name: "sconce_memory_limit_bytes",
      help: "Most bytes that are held for clients.",
      registers: [this.#registry],
      // The same in all processes of a server.
      aggregator: "max",
      collect() {
        this.set(counts().memoryLimit);
      },
    });
    gauge("process_resident_memory_bytes", "Resident memory.", () => process.memoryUsage().rss);
  }

  readonly contentType = this.#registry.contentType;

  /** @param others what the other processes of this server count, from their `json()` */
  async text(others: readonly object[] = []): Promise<string> {
    if (others.length === 0) return this.#registry.metrics();
    return AggregatorRegistry.aggregate([await this.json(), ...others]).metrics();
  }

  /** For another process. */
  json(): Promise<object> {
    return this.#registry.getMetricsAsJSON();
  }

  #tally(name: string, help: string, label: string): Tally {
    return new Tally({ name, help, label, registry: this.#registry });
  }

  #histogram(name: string, help: string, buckets: number[]): Histogram {
    return new Histogram({ name, help, buckets, registers: [this.#registry] });
  }
}
