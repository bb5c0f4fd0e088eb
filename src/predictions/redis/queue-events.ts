/** Writes and reads the events of running predictions in Redis: outputs, and parts of outputs, in order of arrival. */
import type { Text } from "../large-text.ts";
import { readEventsScript, reportEventsScript, watchScript } from "./event-scripts.ts";
import type { Keys } from "./keys.ts";
import type { Mail } from "./mail.ts";
import { listOf, numberOf, textOf } from "./record-fields.ts";
import { LARGE_VALUE_BYTES, type RedisLink } from "./redis-link.ts";

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
  readonly keys: Keys;
  readonly mail: Mail;
  /** The connection for values of a size in bytes. */
  readonly linkFor: (bytes: number) => RedisLink;
}

export class QueueEvents {
  readonly #options: QueueEventsOptions;

  constructor(options: QueueEventsOptions) {
    this.#options = options;
  }

  /**
   * Appends events to the log, which must have `from` events.
   * @returns the number of events in the log; UNWATCHED if no event stream reads the prediction; -1 if another replica runs it
   * @throws SconceError `queue_unavailable`
   */
  async report(id: string, { name, from, events }: EventPage): Promise<number> {
    const { node, keys, mail, linkFor } = this.#options;
    const lines = events.map(lineOf);
    const bytes = lines.reduce((sum, { length }) => sum + length, 0);
    const names = [keys.work(), keys.prediction(id), keys.events(id)];
    const reply = await linkFor(bytes).run(reportEventsScript, names, [node, name, from, ...lines]);
    const [count, nodes] = listOf(reply);
    mail.notify(textOf(nodes), "events", id);
    return numberOf(count);
  }

  /** Lets the replica that runs the prediction report its events. @throws SconceError `queue_unavailable` */
  async watch(id: string): Promise<void> {
    const { keys, mail, linkFor } = this.#options;
    const [queue, entry] = listOf(await linkFor(0).run(watchScript, [keys.prediction(id)], [])).map(textOf);
    if (queue === undefined || entry === undefined) return;
    const [pending] = listOf(await linkFor(0).call("xpending", keys.work(queue), "workers", entry, entry, 1));
    mail.notify(textOf(listOf(pending)[1]), "watched", id);
  }

  /**
   * Reads the events after the first `from` events of the log.
   * @param bytes maximum bytes of the events in the answer. An event that is larger is read alone
   * @returns undefined if the prediction has no log
   * @throws SconceError `queue_unavailable`
   */
  async read(id: string, place: EventPlace, bytes = LARGE_VALUE_BYTES): Promise<ReadPage | undefined> {
    const { keys, linkFor } = this.#options;
    const args = [place.name, place.from, bytes];
    const reply = await linkFor(bytes).run(readEventsScript, [keys.events(id)], args, bytes);
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
