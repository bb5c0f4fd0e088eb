/** A prediction that clients of this process wait for or watch. Any process may run it. */
import type { MemoryAccount } from "../../pipeline/memory/memory-account.ts";
import type { Text } from "../large-text.ts";
import { Observed } from "../observed.ts";
import type { PartLog } from "../part-log.ts";
import { hasEnded, type PredictionRecord } from "../record.ts";
import type { Followed } from "../store.ts";
import { AwaitedEvents } from "./awaited-events.ts";
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
  readonly #options: FollowedOptions;
  /** Time of the last read, in milliseconds of `performance.now()`; infinite until the prediction is in the queue. */
  #polledMs = Number.POSITIVE_INFINITY;
  /** Outputs and parts so far; undefined unless an event stream watches the prediction. */
  #events: AwaitedEvents | undefined;
  #requests = 0;

  constructor(id: string, options: FollowedOptions) {
    super();
    this.id = id;
    this.#options = options;
  }

  get outputs(): readonly (Text | undefined)[] {
    return this.#events?.outputs ?? [];
  }

  get parts(): PartLog | undefined {
    return this.#events?.parts;
  }

  /** Counts one more request, which must dispose this object. */
  shared(): this {
    this.#requests += 1;
    return this;
  }

  [Symbol.dispose](): void {
    this.#requests -= 1;
    if (this.#requests > 0) return;
    this.#events?.[Symbol.dispose]();
    this.#options.onUnused();
  }

  /** Called when the prediction is in the queue. */
  accepted(): void {
    this.#polledMs = performance.now();
  }

  async read(): Promise<PredictionRecord | undefined> {
    const record = await this.#options.queue.read(this.id, { isAwaited: true });
    this.#polledMs = performance.now();
    return record;
  }

  async readOutputs(): Promise<void> {
    this.#events ??= new AwaitedEvents(this.id, this.#options.memory, () => this.changed());
    const record = await this.read();
    if (record !== undefined) await this.readEvents();
    this.update(record);
  }

  /** Reads new events if an event stream watches the prediction. Never throws. */
  async readEvents(): Promise<void> {
    await this.#events?.read(this.#options.queue.events);
  }

  /** Ends the waits. With an event stream, reads the last events first, because the stream must send them before the end. */
  async ended(record: PredictionRecord): Promise<void> {
    if (this.#events !== undefined) await this.readEvents();
    this.update(record);
  }

  /** Reads the prediction again if the last read is old. Never throws. */
  async poll(minMs = POLL_MS): Promise<void> {
    if (performance.now() - this.#polledMs < minMs) return;
    this.#polledMs = performance.now();
    try {
      const record = await this.read();
      await this.readEvents();
      this.update(record);
    } catch {
      // The next poll reads again.
    }
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
