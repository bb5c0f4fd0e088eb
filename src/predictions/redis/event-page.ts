/** A page of the events of a running prediction: an entry of a Redis stream. */
import type { Text } from "../large-text.ts";
import type { Argument } from "./redis-link.ts";
import { type StreamEntry, textOf } from "./replies.ts";

/** Outputs, and parts of outputs, in order of arrival. */
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
  readonly sequence: number | undefined;
  readonly text: Text;
}

/** Names and values of the fields of a page in a stream. */
export function fieldsOf({ name, from, events }: EventPage): Argument[] {
  const fields = events.flatMap(({ index, sequence, text }) => [`${index} ${sequence ?? ""}`, String(text)]);
  return [name, from, ...fields];
}

export function pageOf({ id, fields }: StreamEntry): EventPage & { readonly id: string } {
  const [name = "", from, ...texts] = fields.map(textOf);
  const events: QueuedEvent[] = [];
  for (let i = 0; i < texts.length; i += 2) {
    const [index, sequence] = (texts[i] ?? "").split(" ");
    const text = texts[i + 1] ?? "";
    events.push({ index: Number(index), sequence: sequence ? Number(sequence) : undefined, text });
  }
  return { id, name, from: Number(from), events };
}
