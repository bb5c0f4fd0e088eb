/**
 * Counts the events of a model or server, and returns its metrics. counts.ts adds up the counters of all processes.
 * server-metrics.ts combines the metrics of all models into the text of `GET /metrics`.
 */
import {
  batchCauses,
  type FailureReason,
  failureReasons,
  type QueueFault,
  queueFaults,
  type Refusal,
  type RestartCause,
  type Route,
  refusals,
  restartCauses,
  routeNames,
  type Stage,
  stages,
  statuses,
  type WebhookResult,
  webhookResults,
} from "../../base/labels.ts";
import type { Family } from "../../base/metric-family.ts";
import type { BatchObserver, BatchRun } from "../../engine/engine.ts";
import type { RequestMetrics } from "../../http/metrics.ts";
import type { ReadyInFronts } from "../../pipeline/flow-credits.ts";
import type { EndedPrediction, PredictionMetrics } from "../../predictions/metrics.ts";
import { add, familiesOf, observe, places, SECONDS_STRIDE, seconds, sizes, slots } from "./counts.ts";

/** Current values of a process, which are read at each scrape. */
export interface Gauges {
  readonly families: readonly Family[];
  /** Process ids of the whole server, by name. */
  readonly processes: Readonly<Record<string, number>>;
}

const stagePlaces = new Map(stages.map((stage, i) => [stage, places.stages + SECONDS_STRIDE * i]));
const refusalNames = Object.keys(refusals);
const routeIndexes = new Map(routeNames().map((route, i) => [route, i]));
const statusPlaces = new Map<number, number>(statuses.map((status, i) => [status, i]));
const OTHER_STATUS = statuses.indexOf(500);
const placeOfForward = stagePlaces.get("forward") ?? 0;

export class Metrics implements BatchObserver, ReadyInFronts, PredictionMetrics, RequestMetrics {
  readonly #own: Float64Array;
  readonly #rows: readonly Float64Array[];
  #gauges: (() => Gauges) | undefined;

  /**
   * Counts in a row of shared memory.
   * @param rows counters of all fronts
   * @param row index of the only row that this process changes
   */
  constructor(rows: readonly Float64Array[] = [new Float64Array(slots.length)], row = 0) {
    this.#rows = rows;
    this.#own = rows[row] ?? new Float64Array(slots.length);
    // A front that was killed has left its items.
    this.#own.fill(0, places.readyItems, places.readyBytes + 1);
  }

  ran({ size, waitMs, runMs, cause }: BatchRun): void {
    const own = this.#own;
    observe(own, places.batchSize, sizes, size);
    observe(own, places.batchSeconds, seconds, runMs / 1000);
    observe(own, places.batchWait, seconds, waitMs / 1000);
    observe(own, placeOfForward, seconds, runMs / 1000, size);
    add(own, places.batches + batchCauses.indexOf(cause), 1);
  }

  predictionEnded({ count, itemsSucceeded, itemsFailed, failedFor }: EndedPrediction, seconds_: number): void {
    add(this.#own, places.predictions + outcome(failedFor), 1);
    observe(this.#own, places.latency, seconds, seconds_);
    if (failedFor !== undefined) add(this.#own, places.failedSeconds, seconds_);
    if (itemsSucceeded > 0) this.#itemsEnded(undefined, itemsSucceeded);
    let unfinished = count - itemsSucceeded;
    if (itemsFailed !== undefined)
      for (const [reason, failed] of itemsFailed) {
        this.#itemsEnded(reason, failed);
        unfinished -= failed;
      }
    // Counts inputs without a result as failed, for the prediction's reason.
    if (unfinished > 0 && failedFor !== undefined) this.#itemsEnded(failedFor, unfinished);
  }

  #itemsEnded(reason: FailureReason | undefined, count: number): void {
    add(this.#own, places.items + outcome(reason), count);
  }

  took(stage: Stage, ms: number): void {
    observe(this.#own, stagePlaces.get(stage) ?? 0, seconds, ms / 1000);
  }

  addReady(items: number, bytes: number): void {
    add(this.#own, places.readyItems, items);
    add(this.#own, places.readyBytes, bytes);
  }

  get readyElsewhere(): { readonly items: number; readonly bytes: number } {
    const elsewhere = { items: 0, bytes: 0 };
    for (const row of this.#rows) {
      if (row === this.#own) continue;
      elsewhere.items += row[places.readyItems] ?? 0;
      elsewhere.bytes += row[places.readyBytes] ?? 0;
    }
    return elsewhere;
  }

  queueFailed(reason: QueueFault): void {
    add(this.#own, places.queueFaults + queueFaults.indexOf(reason), 1);
  }

  queueTook({ taken, reclaimed, givenUp }: Readonly<Record<"taken" | "reclaimed" | "givenUp", number>>): void {
    add(this.#own, places.queueTaken, taken);
    add(this.#own, places.queueReclaimed, reclaimed);
    add(this.#own, places.queueGivenUp, givenUp);
  }

  engineRestarted(cause: RestartCause): void {
    add(this.#own, places.engineRestarts + restartCauses.indexOf(cause), 1);
  }

  webhook(result: WebhookResult): void {
    add(this.#own, places.webhooks + webhookResults.indexOf(result), 1);
  }

  loopHeld(heldSeconds: number): void {
    observe(this.#own, places.lag, seconds, heldSeconds);
  }

  answered(route: Route, status: number, ms: number): void {
    const i = routeIndexes.get(route) ?? 0;
    add(this.#own, places.requests + statuses.length * i + (statusPlaces.get(status) ?? OTHER_STATUS), 1);
    observe(this.#own, places.requestSeconds + SECONDS_STRIDE * i, seconds, ms / 1000);
  }

  rejected(cause: Refusal): void {
    add(this.#own, places.refused + refusalNames.indexOf(cause), 1);
  }

  /** Sets the source of the gauges. @param gauges called at each scrape */
  watch(gauges: () => Gauges): void {
    this.#gauges = gauges;
  }

  /** Counters of all fronts together. */
  counters(): Family[] {
    return familiesOf(this.#rows);
  }

  get processes(): Gauges["processes"] {
    return this.#gauges?.().processes ?? {};
  }

  /** Gauges of this process. Counters are in shared memory, so they include all processes. */
  gauges(): readonly Family[] {
    return this.#gauges?.().families ?? [];
  }
}

function outcome(reason: FailureReason | undefined): number {
  return reason === undefined ? 0 : 1 + failureReasons.indexOf(reason);
}
