/** The events of running predictions in Redis: parts and outputs, in the order of their arrival. */
import { type Text, textsOf } from "../predictions/large-text.ts";
import { readEventsScript, reportEventsScript } from "./event-scripts.ts";
import { LARGE_VALUE_BYTES } from "./large-values.ts";
import type { Argument, LuaScript } from "./redis-link.ts";
import { listOf, numberOf, textOf } from "./replies.ts";

/** Undefined for a void part. */
export type QueuedEvent =
  | {
      readonly index: number;
      readonly text: Text /** Undefined for an output. */;
      readonly sequence: number | undefined;
    }
  | undefined;

export interface EventPage {
  readonly name: string;
  /** Number of events before this page. */
  readonly from: number;
  readonly events: readonly QueuedEvent[];
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
   * @returns the number of events in the queue; negative if another node has claimed the prediction
   * @throws SconceError `queue_unavailable`
   */
  async report(id: string, { name, from, events }: EventPage): Promise<number> {
    const lines = events.map(lineOf);
    const bytes = lines.reduce((sum, { length }) => sum + length, 0);
    return numberOf(await this.#run(reportEventsScript, [id, name, from, ...lines], bytes));
  }

  /**
   * Reads events after the first `from` events of the log.
   * @returns undefined for a prediction without events
   * @throws SconceError `queue_unavailable`
   */
  async read(
    id: string,
    { name, from }: Omit<EventPage, "events">,
    bytes = LARGE_VALUE_BYTES,
  ): Promise<EventPage | undefined> {
    const reply = await this.#run(readEventsScript, [id, name, from, bytes], bytes);
    if (typeof reply === "number") return this.read(id, { name, from }, reply);
    const [own, begin, ...lines] = listOf(reply);
    return own === undefined ? undefined : { name: textOf(own), from: numberOf(begin), events: lines.map(eventOf) };
  }
}

function lineOf(event: QueuedEvent): string {
  if (event === undefined) return "";
  return `${event.index} ${event.sequence ?? ""} ${[...textsOf(event.text)].join("")}`;
}

function eventOf(line: unknown): QueuedEvent {
  const [, index, sequence, text = ""] = /^(\d+) (\d*) (.*)$/s.exec(textOf(line)) ?? [];
  if (index === undefined) return undefined;
  return { index: Number(index), sequence: sequence === "" ? undefined : Number(sequence), text };
}
