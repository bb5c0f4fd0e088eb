/** A prediction that requests of this replica wait for or watch, whichever replica runs it. */
import { Observed } from "../predictions/observed.ts";
import { hasEnded, type PredictionRecord } from "../predictions/record.ts";
import type { AwaitedEvents } from "./awaited-events.ts";

export class Awaited extends Observed implements Disposable {
  readonly id: string;
  isOver = false;
  /** The newest known record; undefined when the prediction no longer exists. */
  record: PredictionRecord | undefined;
  /** Time of the last read, in `performance.now()` milliseconds; infinite until somebody waits. */
  polledMs = Number.POSITIVE_INFINITY;
  /** Set if an event stream watches. */
  events: AwaitedEvents | undefined;
  readonly #onUnused: () => void;
  #requests = 0;

  /** @param onUnused called when the last request has disposed its share */
  constructor(id: string, onUnused: () => void) {
    super();
    this.id = id;
    this.#onUnused = onUnused;
  }

  /** Adds a request, which must dispose its share. */
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

  /** `events` has more. */
  eventsAdded(): void {
    this.changed();
  }

  /** Takes over a record that was read. */
  update(record: PredictionRecord | undefined): void {
    if (this.isOver) return;
    this.record = record;
    if (record === undefined || hasEnded(record)) {
      this.isOver = true;
      this.callWaiters();
    }
    this.changed();
  }

  /** Answers everything that waits, before the end. */
  release(): void {
    if (!this.isOver) this.record = undefined;
    this.callWaiters();
    this.changed();
  }
}
