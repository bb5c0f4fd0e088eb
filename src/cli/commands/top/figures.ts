/** Computes the figures of `sconce top` from two readings of /metrics. */
import { type Labels, quantileBetween, type Samples } from "./samples.ts";

interface Latency {
  readonly p50: number | undefined;
  readonly p99: number | undefined;
}

export interface ModelFigures {
  /** Name in paths: /models/{name}. */
  readonly name: string;
  readonly succeeded: number;
  readonly failed: number;
  readonly active: number;
  readonly queued: number;
  readonly latencyMs: Latency;
  readonly batchSize: number | undefined;
  readonly batchLimit: number;
}

/** The figures of one interval. Rates are per second. A latency is undefined if no prediction ended in the interval. */
export interface Figures {
  /** The models as `repository:tag`, with commas between them. */
  readonly model: string;
  readonly device: string;
  readonly version: string;
  readonly requests: {
    readonly perSecond: number;
    readonly refused: number;
    readonly byRoute: Readonly<Record<string, number>>;
  };
  readonly predictions: { readonly succeeded: number; readonly failed: number; readonly active: number };
  readonly latencyMs: Latency;
  /** The models of a server with several models; empty for one model. */
  readonly models: readonly ModelFigures[];
  readonly inputs: {
    readonly perSecond: number;
    readonly queued: number;
    readonly running: number;
    readonly oldestS: number;
  };
  readonly batches: {
    readonly perSecond: number;
    readonly size: number | undefined;
    /** Maximum number of inputs in a batch; undefined for several models, because their limits differ. */
    readonly limit: number | undefined;
    readonly ms: number | undefined;
  };
  readonly stagesMs: Readonly<Record<string, number>>;
  readonly memory: { readonly bytes: number; readonly limitBytes: number };
  /** State of the replicas' queue; undefined without --queue. */
  readonly queue: { readonly isConnected: boolean; readonly items: number; readonly workers: number } | undefined;
  readonly engineRestarts: number;
  readonly processes: readonly { readonly name: string; readonly cores: number; readonly bytes: number }[];
}

export function figuresOf(before: Samples, after: Samples): Figures {
  const seconds = (after.atMs - before.atMs) / 1000;
  const added = (name: string, labels: Labels = {}) => Math.max(0, after.sum(name, labels) - before.sum(name, labels));
  const rate = (name: string, labels: Labels = {}) => added(name, labels) / seconds;
  const mean = (name: string, labels: Labels = {}) => {
    const times = added(`${name}_count`, labels);
    return times === 0 ? undefined : added(`${name}_sum`, labels) / times;
  };
  const rates = (name: string, label: string) => {
    const old = before.by(name, label);
    const each = [...after.by(name, label)].map(
      ([key, value]) => [key, (value - (old.get(key) ?? 0)) / seconds] as const,
    );
    return Object.fromEntries(each.filter(([, value]) => value > 0));
  };
  const quantile = (share: number, labels: Labels) => {
    const found = 1000 * quantileBetween("sconce_prediction_seconds", share, before, after, labels);
    return Number.isNaN(found) ? undefined : found;
  };
  const predictions = (labels: Labels) => ({
    succeeded: rate("sconce_predictions_total", { ...labels, status: "success" }),
    failed: rate("sconce_predictions_total", { ...labels, status: "failed" }),
    active: after.sum("sconce_predictions_active", labels),
  });
  const latencyMs = (labels: Labels) => ({ p50: quantile(0.5, labels), p99: quantile(0.99, labels) });
  const batchLimit = (labels: Labels) => after.sum("sconce_batch_limit_items", labels);
  const ms = (value: number | undefined) => (value === undefined ? undefined : 1000 * value);
  const stages = [...after.by("sconce_stage_seconds_count", "stage").keys()].flatMap((stage) => {
    const found = ms(mean("sconce_stage_seconds", { stage }));
    return found === undefined ? [] : [[stage, found] as const];
  });
  const cpu = rates("process_cpu_seconds_total", "process");
  const builds = after.labels("sconce_model_info");
  const [{ version = "?", device = "?" } = {}] = after.labels("sconce_build_info");
  const models = builds.flatMap(({ model: name }) => {
    if (name === undefined) return [];
    const labels = { model: name };
    return {
      name,
      ...predictions(labels),
      queued: after.sum("sconce_queued_items", labels),
      latencyMs: latencyMs(labels),
      batchSize: mean("sconce_batch_size", labels),
      batchLimit: batchLimit(labels),
    };
  });
  return {
    model: builds.map(({ repository, tag }) => `${repository}:${tag}`).join(", ") || "?",
    device,
    version,
    requests: {
      perSecond: rate("sconce_http_requests_total"),
      refused: rate("sconce_requests_rejected_total"),
      byRoute: rates("sconce_http_requests_total", "route"),
    },
    predictions: predictions({}),
    latencyMs: latencyMs({}),
    models,
    inputs: {
      perSecond: rate("sconce_items_total"),
      queued: after.sum("sconce_queued_items"),
      running: after.sum("sconce_running_items"),
      oldestS: after.max("sconce_oldest_queued_item_age_seconds"),
    },
    batches: {
      perSecond: rate("sconce_batches_total"),
      size: mean("sconce_batch_size"),
      limit: models.length === 0 ? batchLimit({}) : undefined,
      ms: ms(mean("sconce_batch_seconds")),
    },
    stagesMs: Object.fromEntries(stages),
    memory: { bytes: after.sum("sconce_memory_bytes"), limitBytes: after.sum("sconce_memory_limit_bytes") },
    queue: after.has("sconce_queue_connected")
      ? {
          isConnected: after.sum("sconce_queue_connected") > 0,
          items: after.sum("sconce_queue_items"),
          workers: after.sum("sconce_queue_workers"),
        }
      : undefined,
    engineRestarts: after.sum("sconce_engine_restarts_total"),
    processes: [...after.by("process_resident_memory_bytes", "process")].map(([name, bytes]) => ({
      name,
      cores: cpu[name] ?? 0,
      bytes,
    })),
  };
}
