/** The events of running predictions in Redis: parts and outputs, in the order of their arrival. */
import type { Text } from "../predictions/large-text.ts";
import { expectEventsScript, readEventsScript, reportEventsScript } from "./event-scripts.ts";
import { LARGE_VALUE_BYTES } from "./large-values.ts";
import type { Argument, LuaScript } from "./redis-link.ts";
import { listOf, numberOf, textOf } from "./replies.ts";

/** Undefined for a part of an input that ran again. */
export type QueuedEvent =
  | {
      readonly index: number;
      /** Undefined for an output. */
      readonly sequence: number | undefined;
      readonly text: Text;
    }
  | undefined;

/** A place in the log of a node that runs a prediction. */
interface EventPlace {
  /** Name of the log. */
  readonly name: string;
  /** Number of events before this place. */
  readonly from: number;
}

export interface EventPage extends EventPlace {
  readonly events: readonly QueuedEvent[];
}

export interface ReadPage extends EventPage {
  /** Number of events in the log. Redis may have dropped the oldest ones. */
  readonly count: number;
}

export interface ReadOptions {
  /** Whether the queue notifies this node of further events. */
  readonly isNotified: boolean;
  /** Most bytes of the answer. A larger event is read alone. */
  readonly bytes?: number;
}

/** @param bytes of the largest value */
type Run = (script: LuaScript, args: readonly Argument[], bytes: number) => Promise<unknown>;

export class QueueEvents {
  readonly #run: Run;

  constructor(run: Run) {
    this.#run = run;
  }

  /**
   * Appends events after the first `from` events of the log.
   * @returns the number of events in the queue; UNWATCHED without event streams; -1 if another node has claimed the prediction
   * @throws SconceError `queue_unavailable`
   */
  async report(id: string, { name, from, events }: EventPage): Promise<number> {
    const lines = events.map(lineOf);
    const bytes = lines.reduce((sum, { length }) => sum + length, 0);
    return numberOf(await this.#run(reportEventsScript, [id, name, from, ...lines], bytes));
  }

  /**
   * Lets the worker report events of a prediction from its beginning. Call it before the prediction is created.
   * @throws SconceError `queue_unavailable`
   */
  async expect(id: string): Promise<void> {
    await this.#run(expectEventsScript, [id], id.length);
  }

  /**
   * Reads events after the first `from` events of the log. The worker reports events for a few seconds after each read.
   * @returns undefined for a prediction without events
   * @throws SconceError `queue_unavailable`
   */
  async read(id: string, place: EventPlace, options: ReadOptions): Promise<ReadPage | undefined> {
    const { isNotified, bytes = LARGE_VALUE_BYTES } = options;
    const args = [id, place.name, place.from, bytes, isNotified ? 1 : 0];
    const reply = await this.#run(readEventsScript, args, bytes);
    if (typeof reply === "number") return this.read(id, place, { isNotified, bytes: reply });
    const [own, begin, count, ...lines] = listOf(reply);
    if (own === undefined) return undefined;
    return { name: textOf(own), from: numberOf(begin), count: numberOf(count), events: lines.map(eventOf) };
  }
}

function lineOf(event: QueuedEvent): string {
  if (event === undefined) return "";
  return `${event.index} ${event.sequence ?? ""} ${event.text}`;
}

function eventOf(line: unknown): QueuedEvent {
  const [, index, sequence, text = ""] = /^(\d+) (\d*) (.*)$/s.exec(textOf(line)) ?? [];
  if (index === undefined) return undefined;
  return { index: Number(index), sequence: sequence === "" ? undefined : Number(sequence), text };
}
