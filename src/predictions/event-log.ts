/**
 * The outputs of a running prediction, and the pieces of outputs (parts) that its model yields early, in order of arrival.
 * Event streams may read the log after the prediction has ended.
 */

import { byteLengthOf, type Text } from "../base/large-text.ts";
import type { Charge } from "../pipeline/memory/charge.ts";
import { HELD_PER_OUTPUT_BYTE } from "../pipeline/memory/memory-account.ts";

export interface LoggedEvent {
  /** Index of the input whose output the event has. */
  readonly index: number;
  /** Number of earlier parts for the same input. Undefined for a whole output. */
  readonly sequence?: number | undefined;
  readonly text: Text;
}

export class EventLog implements Disposable {
  /** Random name, which event ids contain. It shows when a position belongs to the log of another process. */
  readonly name: string;
  /** The bytes of the events. Callers of `addOutput` and `addPart` charge them. */
  readonly charge: Charge;
  /** Undefined for parts that `restart` dropped. */
  #events: (LoggedEvent | undefined)[] = [];
  /** Positions of the parts, by index of the input. */
  readonly #parts: number[][] = [];
  #holders = 1;

  constructor(charge: Charge, name = Math.random().toString(36).slice(2, 8)) {
    this.charge = charge;
    this.name = name;
  }

  get length(): number {
    return this.#events.length;
  }

  /** @returns undefined for a dropped part */
  at(position: number): LoggedEvent | undefined {
    return this.#events[position];
  }

  addOutput(index: number, text: Text): void {
    this.#events.push({ index, text });
  }

  addPart(index: number, text: Text): void {
    this.#parts[index] ??= [];
    const positions = this.#parts[index];
    this.#events.push({ index, sequence: positions.length, text });
    positions.push(this.#events.length - 1);
  }

  /** Adds the place of a part that the log of another process has dropped. */
  skip(): void {
    this.#events.push(undefined);
  }

  /** Drops the parts of an input that runs again. @returns bytes of the dropped parts */
  restart(index: number): number {
    let bytes = 0;
    for (const position of this.#parts[index] ?? []) {
      bytes += byteLengthOf(this.#events[position]?.text ?? "");
      this.#events[position] = undefined;
    }
    delete this.#parts[index];
    this.charge.grow(-HELD_PER_OUTPUT_BYTE * bytes);
    return bytes;
  }

  /** Adds a reader. The log is freed after all readers and the prediction have disposed it. */
  hold(): this {
    this.#holders += 1;
    return this;
  }

  [Symbol.dispose](): void {
    this.#holders -= 1;
    if (this.#holders > 0) return;
    this.#events = [];
    this.charge[Symbol.dispose]();
  }
}
