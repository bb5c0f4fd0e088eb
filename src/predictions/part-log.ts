/** The pieces of outputs (parts) that a model yields early. Event streams may read them after the prediction ends. */
import type { Charge } from "../pipeline/memory/charge.ts";
import { HELD_PER_OUTPUT_BYTE } from "../pipeline/memory/memory-account.ts";
import { byteLengthOf, type Text } from "./large-text.ts";

export interface Part {
  /** Index of the input whose output the part belongs to. */
  readonly index: number;
  /** Number of earlier parts for the same input. */
  readonly sequence: number;
  readonly text: Text;
}

export class PartLog implements Disposable {
  /** Random name, which event ids contain. It shows when a position belongs to the log of another process. */
  readonly name: string;
  readonly charge: Charge;
  /** Parts in order of arrival; undefined for parts that `restart` dropped. */
  #parts: (Part | undefined)[] = [];
  /** Positions of the parts, by index of the input. */
  readonly #positions: number[][] = [];
  #holders = 1;

  constructor(charge: Charge, name = Math.random().toString(36).slice(2, 8)) {
    this.charge = charge;
    this.name = name;
  }

  get length(): number {
    return this.#parts.length;
  }

  /** Appends a part, whose bytes the caller has charged. */
  add(index: number, text: Text): void {
    this.#positions[index] ??= [];
    const positions = this.#positions[index];
    this.#parts.push({ index, sequence: positions.length, text });
    positions.push(this.#parts.length - 1);
  }

  /** Drops the parts of an input that runs again. @returns bytes of the dropped parts */
  restart(index: number): number {
    let bytes = 0;
    for (const position of this.#positions[index] ?? []) {
      bytes += byteLengthOf(this.#parts[position]?.text ?? "");
      this.#parts[position] = undefined;
    }
    delete this.#positions[index];
    this.charge.grow(-HELD_PER_OUTPUT_BYTE * bytes);
    return bytes;
  }

  at(position: number): Part | undefined {
    return this.#parts[position];
  }

  /**
   * The next position, from `from` on, of a needed part; undefined if there is none.
   * @param isNeeded tests the index of the part's input
   */
  next(from: number, isNeeded: (index: number) => boolean): number | undefined {
    for (let position = from; position < this.#parts.length; position++) {
      const part = this.#parts[position];
      if (part !== undefined && isNeeded(part.index)) return position;
    }
    return undefined;
  }

  /** Adds a reader. The log is freed after all readers and the prediction have disposed it. */
  hold(): this {
    this.#holders += 1;
    return this;
  }

  [Symbol.dispose](): void {
    this.#holders -= 1;
    if (this.#holders > 0) return;
    this.#parts = [];
    this.charge[Symbol.dispose]();
  }
}
