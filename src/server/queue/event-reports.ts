/** Reports the parts and outputs of the predictions that this replica runs to the queue, for the event streams of every replica. */
import type { LivePrediction } from "../predictions/live.ts";
import type { PartLog } from "../predictions/part-log.ts";
import { SentOutputs } from "../predictions/sent-outputs.ts";
import { UNWATCHED } from "./event-scripts.ts";
import type { QueuedEvent, QueueEvents } from "./queue-events.ts";

/** Least interval of the reports of a prediction. */
const INTERVAL_MS = 50;
/** Pause after a failed report. */
const RETRY_MS = 500;
/** Limits of one report. */
const MAX_EVENTS = 500;
const MAX_LENGTH = 2 ** 18;

export class EventReports {
  readonly #events: QueueEvents;
  readonly #reports = new Map<string, EventReport>();

  constructor(events: QueueEvents) {
    this.#events = events;
  }

  /** A prediction with one output and no parts has no events before its end. */
  add(live: LivePrediction): void {
    if (live.isOver || (live.parts === undefined && live.count === 1)) return;
    this.#reports.set(live.id, new EventReport(live, this.#events));
  }

  /** An event stream of a replica watches the prediction. */
  watched(id: string): void {
    this.#reports.get(id)?.watched();
  }

  /** Sends the last parts of ended predictions, before their outcomes. Never throws: an outcome matters more. */
  async flush(ids: readonly string[]): Promise<void> {
    await Promise.all(ids.map((id) => this.#reports.get(id)?.flush()));
  }

  /** The queue has the outcome, or another replica runs the prediction. */
  remove(id: string): void {
    this.#reports.get(id)?.[Symbol.dispose]();
    this.#reports.delete(id);
  }
}

/** A position in the part log, or the index of an output. */
type Noted = { readonly position: number } | { readonly output: number };

class EventReport implements Disposable {
  /** Events that the queue has. */
  #acknowledged = 0;
  readonly #live: LivePrediction;
  readonly #events: QueueEvents;
  readonly #log: PartLog | undefined;
  readonly #name: string;
  readonly #noted: Noted[] = [];
  /** Next position in the part log. */
  #position = 0;
  readonly #outputs = new SentOutputs();
  readonly #stop: () => void;
  #sentMs: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Whether replicas have event streams, as of the last report. */
  #isWatched = true;
  /** Whether events may have come since the last report began. */
  #isStale = false;
  #sending: Promise<void> | undefined;

  constructor(live: LivePrediction, events: QueueEvents) {
    this.#live = live;
    this.#events = events;
    this.#log = live.parts?.hold();
    // A short prediction without parts has its outputs only in its outcome.
    this.#sentMs = this.#log === undefined ? performance.now() : Number.NEGATIVE_INFINITY;
    this.#name = this.#log?.name ?? Math.random().toString(36).slice(2, 8);
    this.#stop = live.watch(() => this.#changed());
    this.#changed();
  }

  /** Sends the last parts. The outcome has all outputs. */
  async flush(): Promise<void> {
    if (this.#log !== undefined && this.#isWatched) await this.#send();
  }

  watched(): void {
    this.#isWatched = true;
    void this.#send();
  }

  [Symbol.dispose](): void {
    this.#stop();
    clearTimeout(this.#timer);
    this.#log?.[Symbol.dispose]();
  }

  #changed(): void {
    this.#sendAfter(this.#sentMs + INTERVAL_MS - performance.now());
  }

  #sendAfter(ms: number): void {
    // `flush` sends the last parts.
    if (this.#timer !== undefined || this.#live.isOver || !this.#isWatched) return;
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        void this.#send();
      },
      Math.max(0, ms),
    );
  }

  /** Sends all events so far. At most one report is in flight. The next report has all events of that time. Never throws. */
  #send(): Promise<void> {
    this.#isStale = true;
    this.#sending ??= this.#sendAll();
    return this.#sending;
  }

  async #sendAll(): Promise<void> {
    while (this.#isStale) {
      this.#isStale = false;
      await this.#report().catch(() => this.#sendAfter(RETRY_MS));
    }
    this.#sending = undefined;
  }

  async #report(): Promise<void> {
    this.#sentMs = performance.now();
    this.#note();
    while (this.#acknowledged < this.#noted.length) {
      const events: QueuedEvent[] = [];
      for (let length = 0; events.length < MAX_EVENTS && length < MAX_LENGTH; ) {
        const noted = this.#noted[this.#acknowledged + events.length];
        if (noted === undefined) break;
        const event = this.#eventOf(noted);
        events.push(event);
        length += event?.text.length ?? 0;
      }
      const page = { name: this.#name, from: this.#acknowledged, events };
      const count = await this.#events.report(this.#live.id, page);
      this.#isWatched = count !== UNWATCHED;
      if (count < 0) return;
      this.#acknowledged = Math.min(count, this.#noted.length);
    }
  }

  /** Parts first: the parts of an output were made before the output. */
  #note(): void {
    const position = () => this.#log?.next(this.#position, () => true);
    for (let next = position(); next !== undefined; next = position()) {
      this.#noted.push({ position: next });
      this.#position = next + 1;
    }
    const { outputs } = this.#live;
    for (let output = this.#outputs.next(outputs); output !== undefined; output = this.#outputs.next(outputs)) {
      this.#noted.push({ output });
      this.#outputs.add(output);
    }
  }

  #eventOf(noted: Noted): QueuedEvent {
    if ("position" in noted) return this.#log?.at(noted.position);
    // The outcome has the outputs after the end.
    const text = this.#live.outputs[noted.output];
    return text === undefined ? undefined : { index: noted.output, sequence: undefined, text };
  }
}
