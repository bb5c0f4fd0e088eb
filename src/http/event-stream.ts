/** A prediction as server-sent events: each is made when its reader takes it, of what is there then, and nothing is queued for readers that lag. */
import type { MemoryAccount } from "../memory/memory-account.ts";
import { listIn } from "../predictions/outcome-list.ts";
import type { Watched } from "../predictions/predictions.ts";
import { type EndedRecord, hasEnded, type PredictionRecord } from "../predictions/record.ts";
import type { Family } from "./families.ts";
import { LARGE_ANSWER_LENGTH, type LargeAnswers } from "./large-answers.ts";
import { recordJson } from "./record-json.ts";
import { SentOutputs } from "./sent-outputs.ts";

/** Of the last event: who has had it is answered 204, which tells an EventSource not to come back. */
export const END_ID = "end";
/** Before a client whose stream broke off comes back. */
const RETRY_MS = 1000;
/** Proxies take connections that are silent for long for dead ones. */
export const KEEP_ALIVE_MS = 15_000;

export interface EventStreamOptions {
  readonly family: Family;
  /** Of a client that goes on where it was. */
  readonly lastEventId?: string | null;
  readonly large: LargeAnswers;
  readonly memory: MemoryAccount;
  readonly keepAliveMs?: number;
  /** Called once. */
  readonly onEnd: (hasLeft: boolean) => void;
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
    this.#wake?.();
  };

  /** The bytes of the events; disposes of what is watched. */
  body(watched: Watched): ReadableStream<Uint8Array> {
    const events = this.#events(watched);
    let isOver = false;
    const end = () => {
      if (isOver) return;
      isOver = true;
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
    yield `retry: ${RETRY_MS}\n\n`;
    if (!this.#isResumed && watched.record !== undefined) yield this.#event("start", this.#startOf(watched.record));
    let ended: (string | undefined)[] | undefined;
    while (!this.#hasLeft) {
      this.#isChanged = false;
      const { record } = watched;
      if (record === undefined) return;
      if (hasEnded(record)) ended ??= outputsOf(record);
      const outputs = ended ?? watched.outputs;
      const index = this.#sent.next(outputs);
      if (record.logs.length > this.#sentLogs) {
        yield this.#log(record);
      } else if (index !== undefined) {
        yield* this.#output(index, outputs[index] ?? "");
      } else if (!hasEnded(record)) {
        yield* this.#pause();
      } else if (record.outcome.members.length < LARGE_ANSWER_LENGTH) {
        yield this.#event("completed", recordJson(record, this.#options.family), END_ID);
        return;
      } else if (this.#options.large.hasRoomFor(record.outcome.members.length)) {
        yield* this.#largeEnd(record);
        return;
      } else {
        this.#options.memory.onceRoom(this.changed);
        yield* this.#pause();
      }
    }
  }

  /** Without outputs and logs, which have events of their own. */
  #startOf(record: PredictionRecord): string {
    return recordJson({ ...record, outcome: undefined, finishedAtMs: undefined, logs: "" }, this.#options.family);
  }

  #event(name: string, data: string, id = this.#id()): string {
    return `event: ${name}\ndata: ${data}\nid: ${id}\n\n`;
  }

  #id(): string {
    return `${this.#sentLogs}:${this.#sent}`;
  }

  #log({ logs }: PredictionRecord): string {
    const end = wholeEnd(logs, this.#sentLogs + LARGE_ANSWER_LENGTH);
    const text = logs.slice(this.#sentLogs, end);
    this.#sentLogs += text.length;
    return this.#event("log", JSON.stringify(text));
  }

  async *#output(index: number, text: string): AsyncGenerator<string> {
    this.#sent.add(index);
    const start = `{"index":${index},"output":`;
    if (text.length < LARGE_ANSWER_LENGTH) {
      yield this.#event("output", `${start}${text}}`);
      return;
    }
    // Held for this reader where the prediction ends meanwhile.
    using _charge = this.#options.memory.add("answers", text.length);
    yield `event: output\ndata: ${start}`;
    for (let from = 0, to = 0; from < text.length && !this.#hasLeft; from = to) {
      to = wholeEnd(text, from + LARGE_ANSWER_LENGTH);
      yield text.slice(from, to);
    }
    yield `}\nid: ${this.#id()}\n\n`;
  }

  async *#largeEnd(record: EndedRecord): AsyncGenerator<string | Uint8Array> {
    const { large, family } = this.#options;
    yield "event: completed\ndata: ";
    for await (const bytes of large.streamOf(record.id, family) ?? large.stream(record, family)) yield bytes;
    yield `\nid: ${END_ID}\n\n`;
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

/** What succeeded; of a large record nothing, as its end alone tells all of it, and telling it twice would take twice the memory. */
function outputsOf({ outcome: { members } }: EndedRecord): (string | undefined)[] {
  if (members.length >= LARGE_ANSWER_LENGTH) return [];
  const partial = listIn(members, "partial_outputs")?.map((text) => (text === "null" ? undefined : text));
  return listIn(members, "outputs") ?? partial ?? [];
}

/** Where a part of a text may end at the latest, so that no character is torn. */
function wholeEnd(text: string, end: number): number {
  const last = text.charCodeAt(end - 1);
  return last >= 0xd800 && last < 0xdc00 ? end - 1 : end;
}
