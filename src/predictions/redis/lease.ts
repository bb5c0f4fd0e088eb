/** A prediction that this process has claimed from the queue, and what Redis knows of its progress. */
import type { EventLog, LoggedEvent } from "../event-log.ts";
import type { LivePrediction } from "../live.ts";
import type { EndedRecord, PredictionRecord } from "../record.ts";
import type { Claimed } from "../store.ts";

/** A piece of the event log of a running prediction: an entry of a Redis stream. */
export interface EventPage {
  /** Name of the log. Each node that runs the prediction writes a new log. */
  readonly name: string;
  /** Position of the first event. */
  readonly from: number;
  /** `null` for a dropped part. */
  readonly events: readonly (QueuedEvent | null)[];
}

export type QueuedEvent = LoggedEvent & { readonly text: string };

/** The progress of a claimed prediction since the last report. */
export interface LeaseReport {
  readonly id: string;
  readonly bytes: number;
  /** Undefined to renew the lease only. */
  readonly progress?: {
    readonly startedAtMs: number | undefined;
    /** Undefined if Redis has them, or gets them with a later report. */
    readonly logs: string | undefined;
    readonly page: EventPage | undefined;
  };
}

/** State of a lease in Redis. `lost`: the prediction has ended, or another node has claimed it. */
export type LeaseState = "lost" | "unwatched" | "watched";

/** Minimum milliseconds between two reports of a prediction's logs, and between two reports without a page of events. */
const INTERVAL_MS = 200;
/** Approximate characters of a page of events, and of the JSON of an event beside its text. */
const MAX_LENGTH = 2 ** 18;
const EVENT_LENGTH = 50;

export class Lease implements Disposable {
  readonly request: Claimed;
  /** The outcome, until Redis acknowledges it. */
  ended: EndedRecord | undefined;
  #live: LivePrediction | undefined;
  /** Undefined if the outcome has all events: one output, and no parts. */
  #log: EventLog | undefined;
  /** Whether an event stream of any replica watched the prediction at the last report; true before the first report. */
  #isWatched = true;
  #reportedMs = performance.now();
  /** The last progress that Redis has acknowledged. Undefined at first: then Redis may have the logs of another node. */
  #reported: Pick<PredictionRecord, "startedAtMs" | "logs"> | undefined;
  /** Position in the log of the next event that Redis has not acknowledged. */
  #position = 0;

  constructor(request: Claimed) {
    this.request = request;
  }

  begin(live: LivePrediction): void {
    this.#live = live;
    if (!live.isOver && (live.parts !== undefined || live.count > 1)) this.#log = live.events.hold();
  }

  /** The progress that Redis does not have yet. Undefined if there is none, or the last report was recent. */
  report(nowMs: number): LeaseReport | undefined {
    if (this.#live === undefined) return undefined;
    const { startedAtMs, logs } = this.#live.record;
    const before = this.#reported;
    const page = this.#isWatched ? this.#nextPage() : undefined;
    const hasLogs = logs.length === (before?.logs.length ?? 0);
    const isSame = startedAtMs === before?.startedAtMs && hasLogs;
    // The outcome has the logs.
    const isEarly = this.ended !== undefined || nowMs - this.#reportedMs < INTERVAL_MS;
    if (page === undefined && (isSame || isEarly)) return undefined;
    const newLogs = before !== undefined && (hasLogs || isEarly) ? undefined : logs;
    const pageLength = page?.events.reduce((sum, event) => sum + (event?.text.length ?? 0), 0) ?? 0;
    const bytes = (newLogs?.length ?? 0) + pageLength;
    return { id: this.request.id, bytes, progress: { startedAtMs, logs: newLogs, page } };
  }

  /** Called when Redis has a report. */
  reported({ progress }: LeaseReport, state: LeaseState): void {
    // Redis knows this process as the worker of the prediction only from the first report with progress on.
    this.#isWatched = state === "watched" || (progress === undefined && this.#isWatched);
    if (progress === undefined) return;
    const { startedAtMs, logs, page } = progress;
    if (page === undefined || logs !== undefined) this.#reportedMs = performance.now();
    this.#reported = { startedAtMs, logs: logs ?? this.#reported?.logs ?? "" };
    // Redis has stored the page only for a watched prediction.
    if (page !== undefined && this.#isWatched)
      this.#position = Math.max(this.#position, page.from + page.events.length);
  }

  [Symbol.dispose](): void {
    this.#log?.[Symbol.dispose]();
    this.#log = undefined;
  }

  #nextPage(): EventPage | undefined {
    const [log, from] = [this.#log, this.#position];
    if (log === undefined) return undefined;
    const events: (QueuedEvent | null)[] = [];
    let length = 0;
    for (let at = from; at < log.length && length < MAX_LENGTH; at++) {
      const event = log.at(at);
      // After the end, the outcome has the outputs.
      const isNeeded = event?.sequence !== undefined || this.ended === undefined;
      const queued = event && isNeeded ? { ...event, text: String(event.text) } : null;
      events.push(queued);
      length += queued === null ? 5 : EVENT_LENGTH + queued.text.length;
    }
    while (this.ended !== undefined && events.at(-1) === null) events.pop();
    return events.length === 0 ? undefined : { name: log.name, from, events };
  }
}
