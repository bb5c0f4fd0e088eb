/** A prediction that this process has claimed from the queue, and what Redis knows of its progress. */
import type { LivePrediction } from "../live.ts";
import type { PartLog } from "../part-log.ts";
import type { EndedRecord, PredictionRecord } from "../record.ts";
import { SentOutputs } from "../sent-outputs.ts";
import type { Claimed } from "../store.ts";

/** Outputs, and parts of outputs, of a running prediction in order of arrival: an entry of a Redis stream. */
export interface EventPage {
  /** Random name of the log. Each node that runs the prediction writes a new log. */
  readonly name: string;
  /** Number of earlier events in the log. */
  readonly from: number;
  readonly events: readonly QueuedEvent[];
}

export interface QueuedEvent {
  readonly index: number;
  /** Number of earlier parts of this output. Undefined for a whole output. */
  readonly sequence?: number;
  readonly text: string;
}

/** The progress of a claimed prediction since the last report. */
export interface LeaseReport {
  readonly id: string;
  readonly bytes: number;
  /** Undefined to renew the lease only. */
  readonly progress?: {
    readonly startedAtMs: number | undefined;
    readonly itemsDone: number;
    readonly logs: string;
    /** The first part of the logs, which Redis has acknowledged. */
    readonly knownLogs: string;
    readonly page: EventPage | undefined;
  };
}

/** State of a lease in Redis. `lost`: the prediction has ended, or another node has claimed it. */
export type LeaseState = "lost" | "unwatched" | "watched";

/** Minimum milliseconds between two reports of a prediction that no event stream watches. */
const INTERVAL_MS = 200;
/** Limits of a page of events: outputs and parts, and their characters. */
const MAX_EVENTS = 500;
const MAX_LENGTH = 2 ** 18;

export class Lease implements Disposable {
  readonly id: string;
  readonly request: Claimed;
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
  /** The last progress that Redis has acknowledged. */
  #reported: Pick<PredictionRecord, "startedAtMs" | "itemsDone" | "logs"> = {
    startedAtMs: undefined,
    itemsDone: 0,
    logs: "",
  };
  /** Number of events that Redis has acknowledged, and their last part. */
  #from = 0;
  #position = 0;
  readonly #outputs = new SentOutputs();
  /** The events that follow, until Redis acknowledges them. */
  #page: EventPage | undefined;

  constructor(request: Claimed) {
    this.id = request.id;
    this.request = request;
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
    const before = this.#reported;
    const page = this.#hasEvents && this.#isWatched ? this.#nextPage() : undefined;
    const isSame =
      startedAtMs === before.startedAtMs && itemsDone === before.itemsDone && logs.length === before.logs.length;
    const isEarly = this.ended !== undefined || nowMs - this.#reportedMs < INTERVAL_MS;
    if (page === undefined && (isSame || isEarly)) return undefined;
    const pageLength = page?.events.reduce((sum, { text }) => sum + text.length, 0) ?? 0;
    const bytes = logs.length - before.logs.length + pageLength;
    return { id: this.id, bytes, progress: { startedAtMs, itemsDone, logs, knownLogs: before.logs, page } };
  }

  /** Called when Redis has a report. */
  reported({ progress }: LeaseReport, state: LeaseState): void {
    // Redis knows this process as the worker of the prediction only from the first report with progress on.
    this.#isWatched = state === "watched" || (progress === undefined && this.#isWatched);
    if (progress === undefined) return;
    this.#reportedMs = performance.now();
    this.#reported = progress;
    const { page } = progress;
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
