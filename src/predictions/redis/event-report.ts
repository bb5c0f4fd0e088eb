/** Sends outputs, and parts of outputs, of a running prediction to Redis, where event streams of all replicas read them. */
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

/** An event: the position of a part in the part log, or the index of an output. */
type Noted = { readonly position: number } | { readonly output: number };

export class EventReport implements Disposable {
  readonly #live: LivePrediction;
  readonly #events: QueueEvents;
  readonly #log: PartLog | undefined;
  readonly #name: string;
  readonly #noted: Noted[] = [];
  readonly #outputs = new SentOutputs();
  readonly #stop: () => void;
  /** Number of events that Redis has acknowledged. */
  #acknowledged = 0;
  #position = 0;
  #sentMs: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Whether an event stream of any replica watched the prediction at the last report; true before the first report. */
  #isWatched = true;
  /** The report that runs, and the reports that wait for it. */
  #sending = Promise.resolve();

  constructor(live: LivePrediction, events: QueueEvents) {
    this.#live = live;
    this.#events = events;
    this.#log = live.parts?.hold();
    // Without parts, the first report waits for the interval, so that a short prediction needs no report.
    this.#sentMs = this.#log === undefined ? performance.now() : Number.NEGATIVE_INFINITY;
    this.#name = this.#log?.name ?? Math.random().toString(36).slice(2, 8);
    this.#stop = live.watch(() => this.#sendAfter(this.#sentMs + INTERVAL_MS - performance.now()));
    this.#sendAfter(this.#sentMs + INTERVAL_MS - performance.now());
  }

  /** Whether a prediction needs reports. If it has one output and no parts, its outcome has all. */
  static isNeeded({ isOver, parts, count }: LivePrediction): boolean {
    return !isOver && (parts !== undefined || count > 1);
  }

  /**
   * If an event stream watches the prediction, sends its last parts, which must precede the outcome. Outputs are not needed,
   * because the outcome has them. Never throws.
   */
  async flush(): Promise<void> {
    if (this.#log !== undefined && this.#isWatched) await this.#send();
  }

  /** Resumes reports, because an event stream watches the prediction. */
  watched(): void {
    this.#isWatched = true;
    void this.#send();
  }

  [Symbol.dispose](): void {
    this.#stop();
    clearTimeout(this.#timer);
    this.#log?.[Symbol.dispose]();
  }

  #sendAfter(ms: number): void {
    // After the end of the prediction, flush() sends the last parts.
    if (this.#timer !== undefined || this.#live.isOver || !this.#isWatched) return;
    const send = () => {
      this.#timer = undefined;
      void this.#send();
    };
    this.#timer = setTimeout(send, Math.max(0, ms));
  }

  /** Sends all new events after the reports that run. Never throws. */
  #send(): Promise<void> {
    this.#sending = this.#sending.then(() => this.#report()).catch(() => this.#sendAfter(RETRY_MS));
    return this.#sending;
  }

  async #report(): Promise<void> {
    this.#sentMs = performance.now();
    this.#note();
    while (this.#acknowledged < this.#noted.length) {
      const events: QueuedEvent[] = [];
      let length = 0;
      for (const noted of this.#noted.slice(this.#acknowledged, this.#acknowledged + MAX_EVENTS)) {
        const event = this.#eventOf(noted);
        events.push(event);
        length += event?.text.length ?? 0;
        if (length >= MAX_LENGTH) break;
      }
      const count = await this.#events.report(this.#live.id, { name: this.#name, from: this.#acknowledged, events });
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
