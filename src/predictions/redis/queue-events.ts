/** Writes and reads the events of running predictions in Redis: outputs, and parts of outputs, in order of arrival. */
import type { Text } from "../large-text.ts";
import { readEventsScript, reportEventsScript, watchScript } from "./event-scripts.ts";
import { listOf, numberOf, textOf } from "./record-fields.ts";
import { type Argument, LARGE_VALUE_BYTES, type LuaScript } from "./redis-link.ts";

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

export interface QueueEventsOptions {
  readonly node: string;
  readonly keysOf: (id: string) => { readonly work: string; readonly prediction: string; readonly events: string };
  /** Runs a script. @param bytes size of the largest value in the arguments or the answer, for the time limit */
  readonly run: (
    script: LuaScript,
    keys: readonly string[],
    args: readonly Argument[],
    bytes: number,
  ) => Promise<unknown>;
  /** Notifies nodes of new events. */
  readonly changed: (id: string, nodes: string) => void;
  /** Notifies the worker of a prediction that an event stream watches it. */
  readonly watched: (id: string, queue: string, entry: string) => Promise<void>;
}

export class QueueEvents {
  readonly #options: QueueEventsOptions;
  readonly #expected = new Set<string>();

  constructor(options: QueueEventsOptions) {
    this.#options = options;
  }

  /**
   * Appends events to the log, which must have `from` events.
   * @returns the number of events in the log; UNWATCHED if no event stream reads the prediction; -1 if another replica runs it
   * @throws SconceError `queue_unavailable`
   */
  async report(id: string, { name, from, events }: EventPage): Promise<number> {
    const { node, keysOf, run, changed } = this.#options;
    const { work, prediction, events: key } = keysOf(id);
    const lines = events.map(lineOf);
    const bytes = lines.reduce((sum, { length }) => sum + length, 0);
    const reply = await run(reportEventsScript, [work, prediction, key], [node, name, from, ...lines], bytes);
    const [count, nodes] = listOf(reply);
    changed(id, textOf(nodes));
    return numberOf(count);
  }

  /** Notes that a prediction is watched as soon as it is created, so that its events are reported from the start. */
  expect(id: string): void {
    this.#expected.add(id);
  }

  /** Whether `expect` was called for a prediction that is created now. */
  takeExpected(id: string): boolean {
    return this.#expected.delete(id);
  }

  /** Lets the replica that runs the prediction report its events. @throws SconceError `queue_unavailable` */
  async watch(id: string): Promise<void> {
    const { keysOf, run, watched } = this.#options;
    const [queue, entry] = listOf(await run(watchScript, [keysOf(id).prediction], [], 0));
    if (queue !== undefined) await watched(id, textOf(queue), textOf(entry));
  }

  /**
   * Reads the events after the first `from` events of the log.
   * @param bytes maximum bytes of the events in the answer. An event that is larger is read alone
   * @returns undefined if the prediction has no log
   * @throws SconceError `queue_unavailable`
   */
  async read(id: string, place: EventPlace, bytes = LARGE_VALUE_BYTES): Promise<ReadPage | undefined> {
    const { keysOf, run } = this.#options;
    const reply = await run(readEventsScript, [keysOf(id).events], [place.name, place.from, bytes], bytes);
    if (typeof reply === "number") return this.read(id, place, reply);
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
