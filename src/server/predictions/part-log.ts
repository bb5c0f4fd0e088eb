/** The parts of a prediction's outputs as JSON texts, in the order of their arrival. Readers hold the log beyond the end of the prediction. */
import type { Charge } from "../memory/charge.ts";
import { HELD_PER_OUTPUT_BYTE } from "../memory/memory-account.ts";
import { byteLengthOf, type Text } from "./large-text.ts";

export interface Part {
  /** Index of the input. */
  readonly index: number;
  /** Number of earlier parts of the input. */
  readonly sequence: number;
  readonly text: Text;
}

export class PartLog implements Disposable {
  /** Distinguishes the positions of this log from positions of a log of another process. */
  readonly name: string;
  readonly charge: Charge;
  /** Undefined for parts of an input that ran again. */
  #parts: (Part | undefined)[] = [];
  /** Positions of the parts, by input. */
  readonly #positions: number[][] = [];
  #holders = 1;

  constructor(charge: Charge, name = Math.random().toString(36).slice(2, 8)) {
    this.charge = charge;
    this.name = name;
  }

  get length(): number {
    return this.#parts.length;
  }

  /** The charge has the bytes already. */
  add(index: number, text: Text): void {
    this.#positions[index] ??= [];
    const positions = this.#positions[index];
    this.#parts.push({ index, sequence: positions.length, text });
    positions.push(this.#parts.length - 1);
  }

  /** The input runs again, and its parts start over. @returns bytes of the dropped texts */
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

  /** The first position from `from` on with a part that the reader needs. */
  next(from: number, isNeeded: (index: number) => boolean): number | undefined {
    for (let position = from; position < this.#parts.length; position++) {
      const part = this.#parts[position];
      if (part !== undefined && isNeeded(part.index)) return position;
    }
    return undefined;
  }

  /** Adds a holder, who must dispose the log. */
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
