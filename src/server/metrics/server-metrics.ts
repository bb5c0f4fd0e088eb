/** The metrics of a server. Metrics of a model get the label `model`. */
import type { Family } from "../../base/metric-family.ts";
import type { MetricsText } from "../../http/metrics.ts";
import type { Metrics } from "./metrics.ts";
import { processFamilies } from "./processes.ts";
import { prometheusText } from "./prometheus-text.ts";

/** Metrics that have the same value for all models of a server. */
const ofServer: ReadonlySet<string> = new Set([
  "sconce_event_loop_lag_seconds",
  "sconce_memory_bytes",
  "sconce_memory_limit_bytes",
  "sconce_queue_limit_items",
  "sconce_queue_limit_bytes",
  "sconce_build_info",
]);

export class ServerMetrics implements MetricsText {
  readonly #server: Metrics;
  readonly #models: ReadonlyMap<string, Metrics>;

  /**
   * Combines the metrics of a server and its models.
   * @param server counters of requests that no model answers, and of the event loop
   * @param models the metrics of the models, by name
   */
  constructor(server: Metrics, models: ReadonlyMap<string, Metrics>) {
    this.#server = server;
    this.#models = models;
  }

  /** Gauges of this process. Counters are in shared memory, so they include all processes. */
  gauges(): Family[] {
    return this.#labelled((metrics) => metrics.gauges());
  }

  /** The metrics as Prometheus text. @param others gauges of the other fronts */
  text(others: readonly Family[] = []): string {
    const counters = [
      ...this.#server.counters().filter(hasCounted),
      ...this.#labelled((metrics) => metrics.counters()),
    ];
    const processes = Object.assign({}, ...[...this.#models.values()].map((metrics) => metrics.processes));
    return prometheusText([...counters, ...this.gauges(), ...processFamilies(processes), ...others]);
  }

  /** Adds the label `model` to the metrics of each model. Metrics of the whole server get no label and appear once. */
  #labelled(familiesOf: (metrics: Metrics) => readonly Family[]): Family[] {
    const seen = new Set<string>();
    return [...this.#models].flatMap(([model, metrics]) =>
      familiesOf(metrics).flatMap((family) => {
        if (!ofServer.has(family.name)) return [labelled(family, model)];
        if (seen.has(family.name)) return [];
        seen.add(family.name);
        return [family];
      }),
    );
  }
}

function labelled(family: Family, model: string): Family {
  return { ...family, values: family.values.map((value) => ({ ...value, labels: { model, ...value.labels } })) };
}

/**
 * Whether to show a counter of the whole server. An unlabelled series that stays at 0 beside the models' series is left
 * out.
 */
function hasCounted({ name, values }: Family): boolean {
  return ofServer.has(name) || values.some(({ value }) => value > 0);
}
