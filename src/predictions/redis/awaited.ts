/** A prediction that requests to this replica wait for or watch. Any replica may run it. */
import { Observed } from "../observed.ts";
import { hasEnded, type PredictionRecord } from "../record.ts";
import type { AwaitedEvents } from "./awaited-events.ts";

export class Awaited extends Observed implements Disposable {
  readonly id: string;
  isOver = false;
  /** The last record that was read. Undefined before the first read, after `release`, and if the prediction no longer exists. */
  record: PredictionRecord | undefined;
  /** Time of the last read, in milliseconds of `performance.now()`; infinite until a request waits. */
  polledMs = Number.POSITIVE_INFINITY;
  /** Outputs and parts so far; undefined unless an event stream watches the prediction. */
  events: AwaitedEvents | undefined;
  readonly #onUnused: () => void;
  #requests = 0;

  /** `onUnused` is called when the last request has disposed this object. */
  constructor(id: string, onUnused: () => void) {
    super();
    this.id = id;
    this.#onUnused = onUnused;
  }

  /** Counts one more request, which must dispose this object. */
  shared(): this {
    this.#requests += 1;
    return this;
  }

  [Symbol.dispose](): void {
    this.#requests -= 1;
    if (this.#requests > 0) return;
    this.events?.[Symbol.dispose]();
    this.#onUnused();
  }

  /** Notifies watchers that `events` has new outputs or parts. */
  eventsAdded(): void {
    this.changed();
  }

  update(record: PredictionRecord | undefined): void {
    if (this.isOver) return;
    this.record = record;
    if (record === undefined || hasEnded(record)) {
      this.isOver = true;
      this.callWaiters();
    }
    this.changed();
  }

  /** Ends the wait of all requests before the prediction has ended. */
  release(): void {
    if (!this.isOver) this.record = undefined;
    this.callWaiters();
    this.changed();
  }
}
