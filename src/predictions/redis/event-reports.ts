/** Sends outputs, and parts of outputs, of running predictions to Redis, where event streams of all replicas read them. */
import type { LivePrediction } from "../live.ts";
import type { PartLog } from "../part-log.ts";
import { SentOutputs } from "../sent-outputs.ts";
import { UNWATCHED } from "./event-scripts.ts";
import type { QueuedEvent, QueueEvents } from "./queue-events.ts";

/** Minimum milliseconds between two reports of a prediction. */
const INTERVAL_MS = 50;
/** Milliseconds to wait after a failed report. */
const RETRY_MS = 500;
/** Limits of one report: outputs and parts, and their characters. */
const MAX_EVENTS = 500;
const MAX_LENGTH = 2 ** 18;

export class EventReports {
  readonly #events: QueueEvents;
  readonly #reports = new Map<string, EventReport>();

  constructor(events: QueueEvents) {
    this.#events = events;
  }

  /** Starts reports of a prediction. A prediction with one output and no parts needs none, because its outcome has the output. */
  add(live: LivePrediction): void {
    if (live.isOver || (live.parts === undefined && live.count === 1)) return;
    this.#reports.set(live.id, new EventReport(live, this.#events));
  }

  /** Resumes reports, because an event stream watches the prediction. */
  watched(id: string): void {
    this.#reports.get(id)?.watched();
  }

  /** Sends the last parts of ended predictions, which must precede their outcomes. Never throws, so that an outcome is sent even without parts. */
  async flush(ids: readonly string[]): Promise<void> {
    await Promise.all(ids.map((id) => this.#reports.get(id)?.flush()));
  }

  /** Ends the reports of a prediction, because Redis has its outcome or another replica runs it. */
  remove(id: string): void {
    this.#reports.get(id)?.[Symbol.dispose]();
    this.#reports.delete(id);
  }
}

/** An event: the position of a part in the part log, or the index of an output. */
type Noted = { readonly position: number } | { readonly output: number };

class EventReport implements Disposable {
  /** Number of events that Redis has acknowledged. */
  #acknowledged = 0;
  readonly #live: LivePrediction;
  readonly #events: QueueEvents;
  readonly #log: PartLog | undefined;
  readonly #name: string;
  readonly #noted: Noted[] = [];
  #position = 0;
  readonly #outputs = new SentOutputs();
  readonly #stop: () => void;
  #sentMs: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Whether an event stream of any replica watched the prediction at the last report; true before the first report. */
  #isWatched = true;
  /** Whether there may be new events since the last report began. */
  #isStale = false;
  #sending: Promise<void> | undefined;

  constructor(live: LivePrediction, events: QueueEvents) {
    this.#live = live;
    this.#events = events;
    this.#log = live.parts?.hold();
    // Without parts, the first report waits for the interval, so that a short prediction needs no report.
    this.#sentMs = this.#log === undefined ? performance.now() : Number.NEGATIVE_INFINITY;
    this.#name = this.#log?.name ?? Math.random().toString(36).slice(2, 8);
    this.#stop = live.watch(() => this.#changed());
    this.#changed();
  }

  /** If an event stream watches the prediction, sends the parts that Redis does not have. Outputs are not needed, because the outcome has them. */
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
    // After the end of the prediction, flush() sends the last parts.
    if (this.#timer !== undefined || this.#live.isOver || !this.#isWatched) return;
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        void this.#send();
      },
      Math.max(0, ms),
    );
  }

  /** Sends all new events. Runs one report at a time, and another one if events came meanwhile. Never throws. */
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

  /** Adds new events to `#noted`: the parts of an output before the output. */
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
    // After the end `outputs` is empty. The outcome in Redis then has the output.
    const text = this.#live.outputs[noted.output];
    return text === undefined ? undefined : { index: noted.output, sequence: undefined, text };
  }
}
