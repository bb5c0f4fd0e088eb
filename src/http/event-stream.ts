/** Sends a prediction as server-sent events. Each event is made when the client reads it, so a slow client causes no queue of events. */

import { LargeText, textsOf } from "../base/large-text.ts";
import { pulledStream } from "../base/pulled-stream.ts";
import type { Charge } from "../pipeline/memory/charge.ts";
import type { MemoryAccount } from "../pipeline/memory/memory-account.ts";
import type { EventLog, LoggedEvent } from "../predictions/event-log.ts";
import { type EndedRecord, hasEnded, type PredictionRecord, statusOf } from "../predictions/record.ts";
import type { Watched } from "../predictions/watched.ts";
import { turnToSend } from "./large-answers.ts";
import { type Family, LARGE_ANSWER_LENGTH, largeRecord, recordJson } from "./record-json.ts";
import type { RequestContext } from "./request.ts";

/** The id of the last event. An EventSource that reconnects with this Last-Event-ID gets 204, and then stops reconnecting. */
export const END_ID = "end";
/** The `retry` field of the stream, in milliseconds: clients reconnect after this time. */
const RETRY_MS = 1000;
/** Milliseconds between comments on a stream without events. Proxies close silent connections. */
const KEEP_ALIVE_MS = 15_000;

export interface EventStreamOptions {
  readonly family: Family;
  readonly lastEventId?: string | null;
  readonly memory: MemoryAccount;
  readonly keepAliveMs?: number;
  /** Gets the status of the prediction. The client's connection has no idle timeout until the prediction ends. */
  readonly context: RequestContext;
  /** Called once if the client disconnects before the last event. */
  readonly onLeave: () => void;
}

interface NextEvent {
  readonly name: "log" | "part" | "output" | "completed";
  /** Marks the event as sent. */
  readonly sent?: () => void;
  /** Approximate characters of the JSON. */
  readonly length: number;
  /** Makes the JSON. Called when there is memory for it. */
  readonly json: () => LargeText;
}

export class EventStream {
  readonly #options: EventStreamOptions;
  /** Indices of the outputs that the client has. */
  readonly #sent = new Set<number>();
  /** Number of characters of the prediction's log text that the client got. */
  #sentLogs: number;
  /** Name of the log of events, and the position of the next event. A process that runs the prediction again has a log with a new name. */
  #logName = "";
  #position = 0;
  readonly #isResumed: boolean;
  #isChanged = false;
  #hasLeft = false;
  #wake: (() => void) | undefined;
  #watched: Watched | undefined;
  #ended: EndedRecord | undefined;
  /** The outputs of the ended prediction that may not be sent yet. */
  #last: ArrayIterator<[number, string | undefined]> | undefined;
  /** The memory of a large ended prediction, until the client has read it. */
  #charge: Charge | undefined;

  constructor(options: EventStreamOptions) {
    this.#options = options;
    const [, logs, log = "", position] = /^(\d+)(?::(\w+)\.(\d+))?$/.exec(options.lastEventId ?? "") ?? [];
    this.#logName = log;
    this.#position = Number(position ?? 0);
    this.#isResumed = logs !== undefined;
    this.#sentLogs = Number(logs ?? 0);
  }

  /** Wakes the stream. Called when the prediction has changed or memory is free. */
  readonly changed = (): void => {
    this.#isChanged = true;
    const record = this.#watched?.record;
    if (record !== undefined && hasEnded(record) && this.#ended === undefined) this.#predictionEnded(record);
    this.#wake?.();
  };

  /** The body of the response. When the stream ends, it disposes `watched`, the subscription to the prediction. */
  body(watched: Watched): ReadableStream<Uint8Array> {
    const { context } = this.#options;
    this.#watched = watched;
    context.predictionStatus = watched.record && statusOf(watched.record);
    context.held(true);
    this.changed();
    return pulledStream(this.#events(watched), () => {
      this.#hasLeft = true;
      this.#end();
      this.changed();
    });
  }

  #end(): void {
    if (this.#watched === undefined) return;
    this.#watched[Symbol.dispose]();
    this.#watched = undefined;
    this.#charge?.[Symbol.dispose]();
    if (this.#ended === undefined) this.#options.context.held(false);
    if (this.#hasLeft) this.#options.onLeave();
  }

  async *#events(watched: Watched): AsyncGenerator<string, undefined> {
    const { memory } = this.#options;
    try {
      yield `retry: ${RETRY_MS}\n\n`;
      const log = watched.events;
      if (log?.name === this.#logName)
        for (let at = 0; at < Math.min(this.#position, log.length); at++) this.#note(log.at(at));
      if (!this.#isResumed && watched.record !== undefined) yield this.#event("start", this.#startOf(watched.record));
      while (!this.#hasLeft) {
        this.#isChanged = false;
        const record = this.#ended ?? watched.record;
        if (record === undefined) return;
        const next = this.#next(record, watched.events);
        if (next === undefined) {
          yield* this.#pause();
        } else if (isLarge(next) && this.#charge === undefined && !memory.hasRoom("answers", next.length)) {
          memory.onceRoom(this.changed);
          yield* this.#pause();
        } else {
          if (next.name === "completed") await watched.written?.();
          next.sent?.();
          yield* this.#send(next);
          if (next.name === "completed") return;
        }
      }
    } finally {
      this.#end();
    }
  }

  #predictionEnded(record: EndedRecord): void {
    const { memory, context } = this.#options;
    const { length } = record.outcome.members;
    this.#ended = record;
    if (length >= LARGE_ANSWER_LENGTH) this.#charge = memory.add("answers", length);
    context.predictionStatus = statusOf(record);
    // The client may still read events.
    context.held(false);
  }

  /** The data of the event `start`: the prediction without outputs and logs, which later events send. */
  #startOf(record: PredictionRecord): string {
    return recordJson({ ...record, outcome: undefined, finishedAtMs: undefined, logs: "" }, this.#options.family);
  }

  /** The next event that the client lacks; undefined if there is none yet. */
  #next(record: PredictionRecord, log: EventLog | undefined): NextEvent | undefined {
    const { logs } = record;
    const from = this.#sentLogs;
    if (logs.length > from) {
      const json = () => new LargeText([JSON.stringify(logs.slice(from))]);
      const sent = () => {
        this.#sentLogs = logs.length;
      };
      return { name: "log", length: logs.length - from, json, sent };
    }
    return this.#nextLogged(record, log) ?? (hasEnded(record) ? this.#nextLast(record) : undefined);
  }

  /** The next event of the log. Skips what the client has, and the outputs of a large ended prediction: `completed` has them. */
  #nextLogged(record: PredictionRecord, log: EventLog | undefined): NextEvent | undefined {
    if (log === undefined) return undefined;
    if (this.#logName !== log.name) [this.#logName, this.#position] = [log.name, 0];
    const isLargeEnd = hasEnded(record) && record.outcome.members.length >= LARGE_ANSWER_LENGTH;
    for (; this.#position < log.length; this.#position++) {
      const event = log.at(this.#position);
      if (event === undefined || this.#sent.has(event.index)) continue;
      if (event.sequence !== undefined || !isLargeEnd) return this.#eventOf(event, this.#position + 1);
    }
    return undefined;
  }

  /** The next event of an ended prediction whose log has been sent: an output that the log lacks, or the end. */
  #nextLast(record: EndedRecord): NextEvent {
    this.#last ??= outputsOf(record).entries();
    for (const [index, text] of this.#last)
      if (text !== undefined && !this.#sent.has(index)) return this.#eventOf({ index, text }, this.#position);
    const length = record.outcome.members.length + record.logs.length;
    return { name: "completed", length, json: () => largeRecord(record, this.#options.family) };
  }

  /** @param position in the log after the event */
  #eventOf(event: LoggedEvent, position: number): NextEvent {
    const { index, sequence, text } = event;
    const [name, order] =
      sequence === undefined ? (["output", ""] as const) : (["part", `"sequence":${sequence},`] as const);
    return {
      name,
      sent: () => {
        this.#position = position;
        this.#note(event);
      },
      length: text.length,
      json: () => new LargeText([`{"index":${index},${order}"${name}":`, text, "}"]),
    };
  }

  #note(event: LoggedEvent | undefined): void {
    if (event !== undefined && event.sequence === undefined) this.#sent.add(event.index);
  }

  async *#send(event: NextEvent): AsyncGenerator<string> {
    const { name } = event;
    const json = event.json();
    const id = name === "completed" ? END_ID : this.#id();
    if (!isLarge(event)) {
      yield this.#event(name, String(json), id);
      return;
    }
    using _charge = this.#charge === undefined ? this.#options.memory.add("answers", json.length) : undefined;
    yield `event: ${name}\ndata: `;
    for (const piece of textsOf(json)) {
      await turnToSend();
      yield eventData(piece);
    }
    yield `\nid: ${id}\n\n`;
  }

  #event(name: string, data: string, id = this.#id()): string {
    return `event: ${name}\ndata: ${eventData(data)}\nid: ${id}\n\n`;
  }

  #id(): string {
    return this.#logName === "" ? `${this.#sentLogs}` : `${this.#sentLogs}:${this.#logName}.${this.#position}`;
  }

  /** Waits for a change of the prediction. After `keepAliveMs` without a change, yields a comment that keeps the connection open. */
  async *#pause(): AsyncGenerator<string> {
    if (this.#isChanged) return;
    const isChanged = await new Promise<boolean>((resolve) => {
      const timer = setTimeout(resolve, this.#options.keepAliveMs ?? KEEP_ALIVE_MS, false);
      this.#wake = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });
    this.#wake = undefined;
    if (!isChanged) yield ":\n\n";
  }
}

/** Outputs as JSON by index; undefined for failed inputs. Empty for a large prediction. */
function outputsOf({ outcome: { members } }: EndedRecord): (string | undefined)[] {
  if (members.length >= LARGE_ANSWER_LENGTH) return [];
  const { outputs, partial_outputs = [] }: Record<string, unknown[] | undefined> = JSON.parse(`{${members}}`);
  return (
    outputs?.map((output) => JSON.stringify(output)) ??
    partial_outputs.map((output) => (output === null ? undefined : JSON.stringify(output)))
  );
}

function isLarge({ length }: NextEvent): boolean {
  return length >= LARGE_ANSWER_LENGTH;
}

/**
 * Escapes JSON for the data of an event. JSON may hold U+0085, U+2028 and U+2029 as they are. Some clients, such as `iter_lines` of Python's HTTP
 * libraries, end a line at these characters, and would cut the event there.
 */
function eventData(json: string): string {
  return json.replace(
    /[\u0085\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
