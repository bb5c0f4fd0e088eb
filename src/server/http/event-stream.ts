/** A prediction as server-sent events: each is made when its reader takes it, of what is there then, and nothing is queued for readers that lag. */
import type { MemoryAccount } from "../memory/memory-account.ts";
import { LargeText, type Text } from "../predictions/large-text.ts";
import { outputsOf } from "../predictions/outcome-list.ts";
import type { Watched } from "../predictions/predictions.ts";
import { type EndedRecord, hasEnded, type PredictionRecord } from "../predictions/record.ts";
import { SentOutputs } from "../predictions/sent-outputs.ts";
import type { Family } from "./families.ts";
import { LARGE_ANSWER_LENGTH, type LargeAnswers } from "./large-answers.ts";
import { largeRecord, recordJson } from "./record-json.ts";

/** Of the last event: who has had it is answered 204, which tells an EventSource not to come back. */
export const END_ID = "end";
/** Before a client whose stream broke off comes back. */
const RETRY_MS = 1000;
/** Proxies take connections that are silent for long for dead ones. */
const KEEP_ALIVE_MS = 15_000;

export interface EventStreamOptions {
  readonly family: Family;
  /** Of a client that goes on where it was. */
  readonly lastEventId?: string | null;
  readonly large: LargeAnswers;
  readonly memory: MemoryAccount;
  readonly keepAliveMs?: number;
  /** Called once, when the prediction has ended: from then on its reader alone is waited for. */
  readonly onOver: () => void;
  /** Called once. */
  readonly onEnd: (hasLeft: boolean) => void;
}

/** What is to be told next beside logs. */
interface NextEvent {
  readonly name: "output" | "completed";
  /** Of the output. */
  readonly index: number | undefined;
  /** Under which others may be reading it. */
  readonly path: string;
  /** Of its text, about. */
  readonly length: number;
  readonly json: () => LargeText;
}

export class EventStream {
  readonly #options: EventStreamOptions;
  readonly #encoder = new TextEncoder();
  readonly #sent: SentOutputs;
  /** Characters of the logs that were sent. */
  #sentLogs: number;
  readonly #isResumed: boolean;
  #isChanged = false;
  #hasLeft = false;
  #wake: (() => void) | undefined;
  #watched: Watched | undefined;
  /** What is there of an end that its reader has not taken. */
  readonly #held = new DisposableStack();
  #hasEnded = false;

  constructor(options: EventStreamOptions) {
    this.#options = options;
    const [, logs, ranges] = /^(\d+):([\d,-]*)$/.exec(options.lastEventId ?? "") ?? [];
    this.#isResumed = logs !== undefined;
    this.#sentLogs = Number(logs ?? 0);
    this.#sent = new SentOutputs(ranges);
  }

  /** To be called when what is watched has changed. */
  readonly changed = (): void => {
    this.#isChanged = true;
    const record = this.#watched?.record;
    if (record !== undefined && hasEnded(record) && !this.#hasEnded) this.#over(record);
    this.#wake?.();
  };

  /** The bytes of the events; disposes of what is watched. */
  body(watched: Watched): ReadableStream<Uint8Array> {
    const events = this.#events(watched);
    this.#watched = watched;
    this.changed();
    let isOver = false;
    const end = () => {
      if (isOver) return;
      isOver = true;
      this.#watched = undefined;
      this.#held.dispose();
      watched[Symbol.dispose]();
      this.#options.onEnd(this.#hasLeft);
    };
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
      try {
        const { value, done } = await events.next();
        if (done) end();
        if (this.#hasLeft) return;
        if (done) controller.close();
        else controller.enqueue(typeof value === "string" ? this.#encoder.encode(value) : value);
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

  async *#events(watched: Watched): AsyncGenerator<string | Uint8Array, undefined> {
    const { large, memory } = this.#options;
    yield `retry: ${RETRY_MS}\n\n`;
    if (!this.#isResumed && watched.record !== undefined) yield this.#event("start", this.#startOf(watched.record));
    let ended: readonly (Text | undefined)[] | undefined;
    while (!this.#hasLeft) {
      this.#isChanged = false;
      const { record } = watched;
      if (record === undefined) return;
      if (record.logs.length > this.#sentLogs) {
        yield this.#log(record);
        continue;
      }
      // Of a large record none: its end tells all of it, and nobody is sent so much twice.
      if (hasEnded(record)) ended ??= outputsOf(record.outcome, LARGE_ANSWER_LENGTH);
      const next = this.#next(record, ended ?? watched.outputs);
      if (next === undefined) {
        yield* this.#pause();
      } else if (next.length >= LARGE_ANSWER_LENGTH && !large.hasRoomFor(next.path, next.length)) {
        memory.onceRoom(this.changed);
        yield* this.#pause();
      } else {
        if (next.index === undefined) await watched.written?.();
        else this.#sent.add(next.index);
        yield* this.#send(next);
        if (next.index === undefined) return;
      }
    }
  }

  #over(record: EndedRecord): void {
    const { large, family, onOver } = this.#options;
    this.#hasEnded = true;
    if (record.outcome.members.length >= LARGE_ANSWER_LENGTH) this.#held.use(large.hold(record, family));
    onOver();
  }

  /** Without outputs and logs, which have events of their own. */
  #startOf(record: PredictionRecord): string {
    return recordJson({ ...record, outcome: undefined, finishedAtMs: undefined, logs: "" }, this.#options.family);
  }

  #log({ logs }: PredictionRecord): string {
    const end = wholeEnd(logs, this.#sentLogs + LARGE_ANSWER_LENGTH);
    const text = logs.slice(this.#sentLogs, end);
    this.#sentLogs += text.length;
    return this.#event("log", JSON.stringify(text));
  }

  #next(record: PredictionRecord, outputs: readonly (Text | undefined)[]): NextEvent | undefined {
    const { family } = this.#options;
    const path = `${family.path}/${record.id}`;
    const index = this.#sent.next(outputs);
    if (index !== undefined) {
      const text = outputs[index] ?? "";
      const json = () => new LargeText([`{"index":${index},"output":`, text, "}"]);
      return { name: "output", index, path: `${path}/events/${index}`, length: text.length, json };
    }
    if (!hasEnded(record)) return undefined;
    const { length } = record.outcome.members;
    return { name: "completed", index, path, length, json: () => largeRecord(record, family) };
  }

  async *#send({ name, index, path, length, json }: NextEvent): AsyncGenerator<string | Uint8Array> {
    const id = index === undefined ? END_ID : this.#id();
    if (length < LARGE_ANSWER_LENGTH) {
      yield this.#event(name, String(json()), id);
      return;
    }
    yield `event: ${name}\ndata: `;
    for await (const bytes of this.#options.large.part(path, json)) yield bytes;
    yield `\nid: ${id}\n\n`;
  }

  #event(name: string, data: string, id = this.#id()): string {
    return `event: ${name}\ndata: ${data}\nid: ${id}\n\n`;
  }

  #id(): string {
    return `${this.#sentLogs}:${this.#sent}`;
  }

  /** Waits for a change; where there is none for long its reader hears that it is still there. */
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

/** Where a part of a text may end at the latest, so that no character is torn. */
function wholeEnd(text: string, end: number): number {
  const last = text.charCodeAt(end - 1);
  return last >= 0xd800 && last < 0xdc00 ? end - 1 : end;
}
