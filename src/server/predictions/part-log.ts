/**
 * The log of a prediction's output parts: pieces of outputs that the model yields early. Event streams may read the log after the prediction ends.
 */
import type { Charge } from "../memory/charge.ts";
import { HELD_PER_OUTPUT_BYTE } from "../memory/memory-account.ts";
import { byteLengthOf, type Text } from "./large-text.ts";

export interface Part {
  /** Index of the input whose output the part belongs to. */
  readonly index: number;
  /** Number of earlier parts for the same input. */
  readonly sequence: number;
  readonly text: Text;
}

export class PartLog implements Disposable {
  /** Random name. The log of another process has another name, so positions in it cannot be confused with positions in this log. */
  readonly name: string;
  readonly charge: Charge;
  /** Parts as JSON texts, in order of arrival. Undefined for parts that restart() dropped. */
  #parts: (Part | undefined)[] = [];
  /** For each input, the positions of its parts. */
  readonly #positions: number[][] = [];
  #holders = 1;

  constructor(charge: Charge, name = Math.random().toString(36).slice(2, 8)) {
    this.charge = charge;
    this.name = name;
  }

  get length(): number {
    return this.#parts.length;
  }

  /** Appends a part. The caller has counted its bytes in `charge`. */
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

  /** The first position at or after `from` whose part the reader needs; undefined if there is none. */
  next(from: number, isNeeded: (index: number) => boolean): number | undefined {
    for (let position = from; position < this.#parts.length; position++) {
      const part = this.#parts[position];
      if (part !== undefined && isNeeded(part.index)) return position;
    }
    return undefined;
  }

  /** Adds a reader. The log is freed when every reader and the prediction have disposed it. */
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
