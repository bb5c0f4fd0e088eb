/** Writes and reads the events of running predictions in Redis: outputs, and parts of outputs, in order of arrival. */
import type { Text } from "../large-text.ts";
import { expectEventsScript, readEventsScript, reportEventsScript } from "./event-scripts.ts";
import { type Argument, LARGE_VALUE_BYTES, type LuaScript } from "./redis-link.ts";
import { listOf, numberOf, textOf } from "./replies.ts";

/** An output, or a part of an output. Undefined: a part whose input runs again, or an output after the end of the prediction. */
export type QueuedEvent =
  | {
      readonly index: number;
      /** Number of earlier parts of this output. Undefined for a whole output. */
      readonly sequence: number | undefined;
      readonly text: Text;
    }
  | undefined;

/** A position in the log of a prediction's events. */
interface EventPlace {
  /** Random name of the log. Each replica that runs the prediction writes a new log. */
  readonly name: string;
  /** Number of events before this position. */
  readonly from: number;
}

export interface EventPage extends EventPlace {
  readonly events: readonly QueuedEvent[];
}

export interface ReadPage extends EventPage {
  /** Number of events in the log, including events that Redis has dropped. */
  readonly count: number;
}

export interface ReadOptions {
  /** Whether Redis notifies this replica of later events. */
  readonly isNotified: boolean;
  /** Maximum bytes of the events in the answer. An event that is larger is read alone. */
  readonly bytes?: number;
}

/** Runs a script. @param bytes size of the largest value in the arguments or the answer, for the time limit */
type Run = (script: LuaScript, args: readonly Argument[], bytes: number) => Promise<unknown>;

export class QueueEvents {
  readonly #run: Run;

  constructor(run: Run) {
    this.#run = run;
  }

  /**
   * Appends events to the log, which must have `from` events.
   * @returns the number of events in the log; UNWATCHED if no event stream reads the prediction; -1 if another replica runs it
   * @throws SconceError `queue_unavailable`
   */
  async report(id: string, { name, from, events }: EventPage): Promise<number> {
    const lines = events.map(lineOf);
    const bytes = lines.reduce((sum, { length }) => sum + length, 0);
    return numberOf(await this.#run(reportEventsScript, [id, name, from, ...lines], bytes));
  }

  /**
   * Marks a prediction as watched before it is created, so that its events are reported from the start.
   * @throws SconceError `queue_unavailable`
   */
  async expect(id: string): Promise<void> {
    await this.#run(expectEventsScript, [id], id.length);
  }

  /**
   * Reads the events after the first `from` events of the log. The replica that runs the prediction reports events for some seconds after each read.
   * @returns undefined if the prediction has no log
   * @throws SconceError `queue_unavailable`
   */
  async read(id: string, place: EventPlace, options: ReadOptions): Promise<ReadPage | undefined> {
    const { isNotified, bytes = LARGE_VALUE_BYTES } = options;
    const args = [id, place.name, place.from, bytes, isNotified ? 1 : 0];
    const reply = await this.#run(readEventsScript, args, bytes);
    if (typeof reply === "number") return this.read(id, place, { isNotified, bytes: reply });
    const [own, begin, count, ...lines] = listOf(reply);
    if (own === undefined) return undefined;
    const events = lines.map((line) => eventOf(textOf(line)));
    return { name: textOf(own), from: numberOf(begin), count: numberOf(count), events };
  }
}

function lineOf(event: QueuedEvent): string {
  return event === undefined ? "" : `${event.index} ${event.sequence ?? ""} ${event.text}`;
}

function eventOf(text: string): QueuedEvent {
  const [, index, sequence, value = ""] = /^(\d+) (\d*) (.*)$/s.exec(text) ?? [];
  if (index === undefined) return undefined;
  return { index: Number(index), sequence: sequence === "" ? undefined : Number(sequence), text: value };
}
