/** Sends a prediction as server-sent events. Each event is made when the client reads it, so a slow client causes no queue of events. */
import type { Charge } from "../pipeline/memory/charge.ts";
import type { MemoryAccount } from "../pipeline/memory/memory-account.ts";
import { LargeText, type Text, textsOf } from "../predictions/large-text.ts";
import { outputsOf } from "../predictions/outcome-list.ts";
import { type EndedRecord, hasEnded, type PredictionRecord, statusOf } from "../predictions/record.ts";
import { SentOutputs } from "../predictions/sent-outputs.ts";
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
  readonly isLoading?: (() => boolean) | undefined;
  /** Gets the status of the prediction. The client's connection has no idle timeout until the prediction ends. */
  readonly context: RequestContext;
  /** Called once if the client disconnects before the last event. */
  readonly onLeave: () => void;
}

interface NextEvent {
  readonly name: "part" | "output" | "completed";
  /** Marks the event as sent. Event ids list the sent events, so that a client that reconnects gets each event once. */
  readonly sent?: () => void;
  readonly json: LargeText;
}

export class EventStream {
  readonly #options: EventStreamOptions;
  readonly #encoder = new TextEncoder();
  readonly #sent: SentOutputs;
  /** Number of characters of the prediction's log text that the client got. */
  #sentLogs: number;
  /**
   * The next part to send: the name of the log of parts, and a position in it. A process that runs the prediction again has a log with a new name,
   * whose parts are sent from the start.
   */
  #parts: { readonly log: string; position: number } | undefined;
  readonly #isResumed: boolean;
  #isChanged = false;
  #hasLeft = false;
  #wake: (() => void) | undefined;
  #watched: Watched | undefined;
  #ended: EndedRecord | undefined;
  /** The memory of a large ended prediction, until the client has read it. */
  #charge: Charge | undefined;

  constructor(options: EventStreamOptions) {
    this.#options = options;
    const lastId = /^(\d+):([\d,-]*)(?::(\w+)\.(\d+))?$/.exec(options.lastEventId ?? "");
    const [, logs, ranges, log, position] = lastId ?? [];
    if (log !== undefined) this.#parts = { log, position: Number(position) };
    this.#isResumed = logs !== undefined;
    this.#sentLogs = Number(logs ?? 0);
    this.#sent = new SentOutputs(ranges);
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
    const events = this.#events(watched);
    this.#watched = watched;
    context.predictionStatus = watched.record && statusOf(watched.record);
    context.held(true);
    this.changed();
    let isEnded = false;
    const end = () => {
      if (isEnded) return;
      isEnded = true;
      this.#watched = undefined;
      this.#charge?.[Symbol.dispose]();
      watched[Symbol.dispose]();
      if (this.#ended === undefined) this.#options.context.held(false);
      if (this.#hasLeft) this.#options.onLeave();
    };
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
      try {
        const { value, done } = await events.next();
        if (done) end();
        if (this.#hasLeft) return;
        if (done) controller.close();
        else controller.enqueue(this.#encoder.encode(value));
      } catch (error) {
        end();
        throw error;
      }
    };
    const cancel = async () => {
      this.#hasLeft = true;
      end();
      this.changed();
      await events.return(undefined);
    };
    return new ReadableStream({ pull, cancel }, { highWaterMark: 0 });
  }

  async *#events(watched: Watched): AsyncGenerator<string, undefined> {
    const { memory } = this.#options;
    yield `retry: ${RETRY_MS}\n\n`;
    if (!this.#isResumed && watched.record !== undefined) yield this.#event("start", this.#startOf(watched.record));
    if (watched.record !== undefined && !hasEnded(watched.record) && this.#options.isLoading?.()) {
      yield this.#event("loading", JSON.stringify({ model: watched.record.model?.repository }));
    }
    let ended: readonly (Text | undefined)[] | undefined;
    while (!this.#hasLeft) {
      this.#isChanged = false;
      const record = this.#ended ?? watched.record;
      if (record === undefined) return;
      if (record.logs.length > this.#sentLogs) {
        yield this.#log(record);
        continue;
      }
      // outputsOf() is empty for a large ended prediction: the event `completed` alone sends its outputs.
      if (hasEnded(record)) ended ??= outputsOf(record.outcome, LARGE_ANSWER_LENGTH);
      const next = this.#nextPart(watched) ?? this.#next(record, ended ?? watched.outputs);
      if (next === undefined) {
        yield* this.#pause();
      } else if (isLarge(next) && this.#charge === undefined && !memory.hasRoom("answers", next.json.length)) {
        memory.onceRoom(this.changed);
        yield* this.#pause();
      } else {
        if (next.name === "completed") await watched.written?.();
        next.sent?.();
        yield* this.#send(next);
        if (next.name === "completed") return;
      }
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

  #log({ logs }: PredictionRecord): string {
    const end = wholeEnd(logs, this.#sentLogs + LARGE_ANSWER_LENGTH);
    const text = logs.slice(this.#sentLogs, end);
    this.#sentLogs += text.length;
    return this.#event("log", JSON.stringify(text));
  }

  /** The event of the next part to send; undefined if none is left. Parts precede their output: parts of an output that was sent are skipped. */
  #nextPart({ parts }: Watched): NextEvent | undefined {
    if (parts === undefined) return undefined;
    if (this.#parts?.log !== parts.name) this.#parts = { log: parts.name, position: 0 };
    const sent = this.#parts;
    const position = parts.next(sent.position, (index) => !this.#sent.has(index));
    const part = position === undefined ? undefined : parts.at(position);
    if (position === undefined || part === undefined) {
      sent.position = parts.length;
      return undefined;
    }
    const { index, sequence, text } = part;
    return {
      name: "part",
      sent: () => {
        sent.position = position + 1;
      },
      json: new LargeText([`{"index":${index},"sequence":${sequence},"part":`, text, "}"]),
    };
  }

  #next(record: PredictionRecord, outputs: readonly (Text | undefined)[]): NextEvent | undefined {
    const index = this.#sent.next(outputs);
    if (index !== undefined) {
      const json = new LargeText([`{"index":${index},"output":`, outputs[index] ?? "", "}"]);
      return { name: "output", sent: () => this.#sent.add(index), json };
    }
    return hasEnded(record) ? { name: "completed", json: largeRecord(record, this.#options.family) } : undefined;
  }

  async *#send(event: NextEvent): AsyncGenerator<string> {
    const { name, json } = event;
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
    const parts = this.#parts === undefined ? "" : `:${this.#parts.log}.${this.#parts.position}`;
    return `${this.#sentLogs}:${this.#sent}${parts}`;
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

function isLarge({ json }: NextEvent): boolean {
  return json.length >= LARGE_ANSWER_LENGTH;
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

/** The last position up to `end` that does not split a surrogate pair. */
function wholeEnd(text: string, end: number): number {
  const last = text.charCodeAt(end - 1);
  return last >= 0xd800 && last < 0xdc00 ? end - 1 : end;
}
