/** A prediction that clients of this process wait for or watch. Any process may run it. */

import { byteLengthOf } from "../../base/large-text.ts";
import { HELD_PER_OUTPUT_BYTE, type MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import { EventLog } from "../event-log.ts";
import { Observed } from "../observed.ts";
import { hasEnded, type PredictionRecord } from "../record.ts";
import type { Followed } from "../store.ts";
import type { EventPage } from "./lease.ts";
import type { Queue } from "./queue.ts";

/** Minimum milliseconds between two reads of a prediction that a request waits for, in case a notification was lost. */
const POLL_MS = 500;

export interface FollowedOptions {
  readonly queue: Queue;
  readonly memory: MemoryAccount;
  /** Called when the last request has disposed the object. */
  readonly onUnused: () => void;
}

export class FollowedPrediction extends Observed implements Followed {
  readonly id: string;
  isOver = false;
  /** The last record that was read. Undefined before the first read, after `release`, and if the prediction no longer exists. */
  record: PredictionRecord | undefined;
  events: EventLog | undefined;
  readonly #options: FollowedOptions;
  #requests = 0;
  /** Time of the last read, in milliseconds of `performance.now()`; infinite until the prediction is in the queue. */
  #polledMs = Number.POSITIVE_INFINITY;
  /**
   * Whether this front reads the events for an event stream. `stopped`: memory is short or Redis lacks an event, so that
   * event streams get the other outputs at the end.
   */
  #eventReads: "none" | "some" | "stopped" = "none";
  #lastPage = "-";
  #reading = Promise.resolve();

  constructor(id: string, options: FollowedOptions) {
    super();
    this.id = id;
    this.#options = options;
  }

  /** Counts one more request, which must dispose this object. */
  shared(): this {
    this.#requests += 1;
    return this;
  }

  [Symbol.dispose](): void {
    this.#requests -= 1;
    if (this.#requests > 0) return;
    this.#eventReads = "stopped";
    this.events?.[Symbol.dispose]();
    this.#options.onUnused();
  }

  /** Called when the prediction is in the queue, which then notifies this process of the end. */
  accepted(): void {
    this.#polledMs = performance.now();
  }

  async read(): Promise<PredictionRecord | undefined> {
    const { queue } = this.#options;
    // A full Redis refuses this. Polls then find the end.
    const following = queue.follow(this.id, this.#eventReads === "some").catch(() => {});
    const [record] = await Promise.all([queue.read(this.id), following]);
    this.#polledMs = performance.now();
    return record;
  }

  async readOutputs(): Promise<void> {
    if (this.#eventReads === "none") this.#eventReads = "some";
    await this.#refresh();
  }

  /** Reads new events if an event stream watches the prediction, after earlier reads. Never throws. */
  readEvents(): Promise<void> {
    // A failed read is repeated after the next notification or poll.
    if (this.#eventReads === "some") this.#reading = this.#reading.then(() => this.#readPages()).catch(() => {});
    return this.#reading;
  }

  /** Ends the waits. With an event stream, reads the last events first, because the stream must send them before the end. */
  async ended(record: PredictionRecord): Promise<void> {
    await this.readEvents();
    this.update(record);
  }

  /** Reads the prediction again if the last read is old. Never throws. */
  async poll(minMs = POLL_MS): Promise<void> {
    if (performance.now() - this.#polledMs < minMs) return;
    this.#polledMs = performance.now();
    // After a failure, the next poll reads again.
    await this.#refresh().catch(() => {});
  }

  update(record: PredictionRecord | undefined): void {
    if (this.isOver) return;
    this.record = record;
    this.isOver = record === undefined || hasEnded(record);
    this.changed();
  }

  /** Ends the wait of all requests before the prediction has ended. */
  release(): void {
    this.update(undefined);
  }

  async #refresh(): Promise<void> {
    const record = await this.read();
    await this.readEvents();
    this.update(record);
  }

  async #readPages(): Promise<void> {
    for (let isMore = true; isMore && this.#eventReads === "some"; ) {
      const found = await this.#options.queue.readEvents(this.id, this.#lastPage);
      isMore = found.isMore;
      for (const page of found.pages) {
        this.#lastPage = page.id;
        if (this.#eventReads === "some") this.#add(page);
      }
    }
  }

  /** Adds the new events of a page. */
  #add({ name, from, events }: EventPage): void {
    const { memory } = this.#options;
    if (name !== this.events?.name) {
      // A new name means that another process runs the prediction from the start.
      this.events?.[Symbol.dispose]();
      this.events = new EventLog(memory.add("outputs", 0), name);
    }
    const log = this.events;
    if (from > log.length) this.#eventReads = "stopped";
    for (const event of events.slice(log.length - from)) {
      const bytes = HELD_PER_OUTPUT_BYTE * byteLengthOf(event?.text ?? "");
      if (!memory.hasRoom("outputs", bytes)) this.#eventReads = "stopped";
      if (this.#eventReads === "stopped") break;
      log.charge.grow(bytes);
      if (event === null) log.skip();
      else if (event.sequence === undefined) log.addOutput(event.index, event.text);
      else {
        if (event.sequence === 0) log.restart(event.index);
        log.addPart(event.index, event.text);
      }
    }
    this.changed();
  }
}
