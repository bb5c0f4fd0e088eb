/** The gauges of a model in one front, as metrics for GET /metrics. */
import { version } from "../../package.json";
import { type Unready, unreadyReasons } from "../base/labels.ts";
import type { Family, Labels } from "../base/metric-family.ts";
import { generatedTag } from "../package/store/reference.ts";
import type { SharedStore } from "../predictions/store.ts";
import type { FrontShared } from "./front-shared.ts";
import type { Gauges } from "./metrics/metrics.ts";
import type { OpenModel } from "./model-parts.ts";
import type { ServedBuild } from "./served-build.ts";

interface GaugedModel {
  readonly name: string;
  readonly shared: FrontShared;
  readonly served: ServedBuild;
  readonly unready: Unready | undefined;
  readonly batchSize: number;
}

export function gaugesOf(front: GaugedModel, opened: OpenModel): Gauges {
  const { name, shared } = front;
  const pid = opened.build.engine?.info?.pid;
  return {
    families: familiesOf(front, opened),
    processes: { ...shared.processes(), ...(pid === undefined ? {} : { [`engine of ${name}`]: pid }) },
  };
}

function familiesOf(front: GaugedModel, { parts, build: { engine, runs } }: OpenModel): Family[] {
  const { served, shared, unready } = front;
  const { store, predictions, webhooks } = parts;
  const { flow } = runs.parts;
  const { config, version: built } = served;
  const { memory } = shared;
  // Only one of the fronts that share a database reports its size.
  const countsStore = shared.start.index === 0 || served.record.store === undefined;
  const { live } = predictions;
  const { unfinished } = live;
  const retained = countsStore ? store.retained : { count: 0, bytes: 0 };
  const memoryParts = Object.entries(memory.parts).map(([part, value]) => ({ labels: { part }, value }));
  const reasons = unreadyReasons.map((reason) => ({ labels: { reason }, value: Number(reason === unready) }));
  const build = { version, torch: engine?.info?.torch ?? "", device: engine?.info?.devices.join(",") ?? "" };
  const model = { repository: built.repository, tag: generatedTag(built.digest), digest: built.digest };
  return [
    gauge("sconce_unready", "1 for the reason why the server is not ready; 0 for the others.", "max", reasons),
    sum("sconce_predictions_active", "Predictions that have not ended.", unfinished.predictions),
    sum("sconce_queued_items", "Inputs that wait for their forward pass.", flow?.credits.unsent ?? 0),
    sum("sconce_running_items", "Inputs that are in a batch.", flow?.credits.running ?? 0),
    max(
      "sconce_oldest_queued_item_age_seconds",
      "Age of the oldest prediction with an input that waits; 0 without.",
      live.oldestWaitMs / 1000,
    ),
    sum("sconce_queued_bytes", "Body bytes of the predictions that have not ended.", unfinished.bytes),
    sum("sconce_waiting_webhooks", "Ends of predictions that webhooks are still to be told.", webhooks?.waiting ?? 0),
    max(
      "sconce_oldest_webhook_age_seconds",
      "For how long the oldest of them has waited.",
      (webhooks?.oldestMs ?? 0) / 1000,
    ),
    sum("sconce_ready_items", "Items that are ready and wait for a batch.", flow?.credits.ready.items ?? 0),
    sum("sconce_ready_bytes", "Tensor bytes of the items that wait for a batch.", flow?.credits.ready.bytes ?? 0),
    sum("sconce_retained_predictions", "Ended predictions that can still be read.", retained.count),
    sum("sconce_retained_bytes", "Bytes of their results.", retained.bytes),
    gauge("sconce_memory_bytes", "Bytes that are held for clients, by what they are.", "sum", memoryParts),
    ...(store.shared === undefined ? [] : queueGauges(store.shared, store.outage !== "queue")),
    max("sconce_memory_limit_bytes", "Maximum bytes that are held for clients.", memory.maxBytes),
    max("sconce_batch_limit_items", "Maximum items of a batch.", front.batchSize),
    max("sconce_queue_limit_items", "Maximum inputs that are accepted and have not ended.", config.maxQueuedItems),
    max("sconce_queue_limit_bytes", "Maximum body bytes of predictions that have not ended.", config.maxQueuedBytes),
    max("sconce_ready_limit_bytes", "Maximum tensor bytes that wait for a batch.", config.maxReadyBytes),
    max("sconce_prediction_limit_seconds", "Longest time that a prediction may take.", config.timeout),
    max("sconce_build_info", "The server; always 1.", 1, build),
    max("sconce_model_info", "The model; always 1.", 1, model),
  ];
}

/**
 * The gauges of the queue in Redis. All servers that share the queue report the same values, except
 * `sconce_queue_connected`.
 */
function queueGauges({ facts }: SharedStore, isConnected: boolean): Family[] {
  return [
    max("sconce_queue_connected", "Whether the queue of the replicas can be reached.", Number(isConnected)),
    max("sconce_queue_age_seconds", "Age of the oldest prediction that no worker has; 0 without.", facts.ageMs / 1000),
    max("sconce_queue_items", "Inputs of all replicas that were accepted and have not ended.", facts.items),
    max("sconce_queue_workers", "Workers that have given a sign of late.", facts.workers),
    gauge("sconce_queue_entries", "Predictions in the queue, by whether a worker has them.", "max", [
      { labels: { state: "waiting" }, value: facts.waiting },
      { labels: { state: "taken" }, value: facts.taken },
    ]),
  ];
}

function sum(name: string, help: string, value: number): Family {
  return gauge(name, help, "sum", [{ labels: {}, value }]);
}

/** A gauge of which the server reports the largest value of its processes, such as a limit that all share. */
function max(name: string, help: string, value: number, labels: Labels = {}): Family {
  return gauge(name, help, "max", [{ labels, value }]);
}

function gauge(name: string, help: string, aggregator: Family["aggregator"], values: Family["values"]): Family {
  return { name, help, type: "gauge", aggregator, values };
}
