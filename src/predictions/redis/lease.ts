/** A prediction that this process has claimed from the queue, and what Redis knows of its progress. */
import type { LivePrediction } from "../live.ts";
import type { PartLog } from "../part-log.ts";
import type { EndedRecord } from "../record.ts";
import { SentOutputs } from "../sent-outputs.ts";
import type { EventPage, LeaseReport, LeaseState, QueuedEvent } from "./queue.ts";

/** Minimum milliseconds between two reports of a prediction that no event stream watches. */
const INTERVAL_MS = 200;
/** Limits of a page of events: outputs and parts, and their characters. */
const MAX_EVENTS = 500;
const MAX_LENGTH = 2 ** 18;

export class Lease implements Disposable {
  readonly id: string;
  /** Time limit, in milliseconds of `performance.now()`. */
  readonly deadlineMs: number;
  /** The outcome, until Redis acknowledges it. */
  ended: EndedRecord | undefined;
  readonly #acknowledged = Promise.withResolvers<void>();
  #live: LivePrediction | undefined;
  #log: PartLog | undefined;
  #name = "";
  /** Whether the outcome lacks events. A prediction with one output and no parts has no others. */
  #hasEvents = false;
  /** Whether an event stream of any replica watched the prediction at the last report; true before the first report. */
  #isWatched = true;
  #reportedMs = performance.now();
  #reported: { startedAtMs: number | undefined; itemsDone: number; logLength: number; logBytes: number };
  /** Number of events that Redis has acknowledged, and their last part. */
  #from = 0;
  #position = 0;
  readonly #outputs = new SentOutputs();
  /** The events that follow, until Redis acknowledges them. */
  #page: EventPage | undefined;

  constructor(id: string, deadlineMs: number) {
    this.id = id;
    this.deadlineMs = deadlineMs;
    this.#reported = { startedAtMs: undefined, itemsDone: 0, logLength: 0, logBytes: 0 };
  }

  /** Resolves when Redis has acknowledged the outcome, or the lease is dropped. */
  get acknowledged(): Promise<void> {
    return this.#acknowledged.promise;
  }

  begin(live: LivePrediction): void {
    this.#live = live;
    this.#log = live.isOver ? undefined : live.partLog?.hold();
    this.#name = this.#log?.name ?? Math.random().toString(36).slice(2, 8);
    this.#hasEvents = this.#log !== undefined || live.count > 1;
  }

  /** An event stream watches the prediction from now on. */
  watched(): void {
    this.#isWatched = true;
  }

  /** The progress that Redis does not have yet. Undefined if there is none, or the last report was recent. */
  report(nowMs: number): LeaseReport | undefined {
    if (this.#live === undefined) return undefined;
    const { startedAtMs, itemsDone, logs } = this.#live.record;
    const reported = this.#reported;
    const page = this.#hasEvents && this.#isWatched ? this.#nextPage() : undefined;
    if (page === undefined) {
      if (this.ended !== undefined || nowMs - this.#reportedMs < INTERVAL_MS) return undefined;
      const { logLength } = reported;
      if (reported.startedAtMs === startedAtMs && reported.itemsDone === itemsDone && logLength === logs.length)
        return undefined;
    }
    const more = logs.slice(reported.logLength);
    const bytes = more.length + (page?.events.reduce((sum, { text }) => sum + text.length, 0) ?? 0);
    return { id: this.id, progress: { startedAtMs, itemsDone, logBytes: reported.logBytes, logs: more, page, bytes } };
  }

  /** Called when Redis has a report. */
  reported({ progress }: LeaseReport, state: LeaseState): void {
    // Redis knows this process as the worker of the prediction only from the first report with progress on.
    this.#isWatched = state === "watched" || (progress === undefined && this.#isWatched);
    if (progress === undefined) return;
    const { startedAtMs, itemsDone, logBytes, logs, page } = progress;
    this.#reportedMs = performance.now();
    // Another report of the same logs may have been acknowledged meanwhile.
    if (logBytes === this.#reported.logBytes) {
      const logLength = this.#reported.logLength + logs.length;
      this.#reported = { startedAtMs, itemsDone, logLength, logBytes: logBytes + Buffer.byteLength(logs) };
    }
    // Redis has stored the page only for a watched prediction.
    if (page === undefined || page !== this.#page || !this.#isWatched) return;
    this.#from += page.events.length;
    this.#page = undefined;
  }

  [Symbol.dispose](): void {
    this.#log?.[Symbol.dispose]();
    this.#log = undefined;
    this.#hasEvents = false;
    this.#acknowledged.resolve();
  }

  /** The unacknowledged page, else new parts, and then new outputs. */
  #nextPage(): EventPage | undefined {
    if (this.#page !== undefined) return this.#page;
    const events: QueuedEvent[] = [];
    let length = 0;
    const add = (event: QueuedEvent) => {
      events.push(event);
      length += event.text.length;
    };
    const hasRoom = () => events.length < MAX_EVENTS && length < MAX_LENGTH;
    const nextPart = () => (hasRoom() ? this.#log?.next(this.#position, () => true) : undefined);
    for (let at = nextPart(); at !== undefined; at = nextPart()) {
      const part = this.#log?.at(at);
      if (part !== undefined) add({ ...part, text: String(part.text) });
      this.#position = at + 1;
    }
    // Empty after the end, because the outcome has the outputs.
    const outputs = this.#live?.outputs ?? [];
    const nextOutput = () => (hasRoom() ? this.#outputs.next(outputs) : undefined);
    for (let index = nextOutput(); index !== undefined; index = nextOutput()) {
      add({ index, text: String(outputs[index] ?? "") });
      this.#outputs.add(index);
    }
    if (events.length > 0) this.#page = { name: this.#name, from: this.#from, events };
    return this.#page;
  }
}
