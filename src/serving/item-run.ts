/** Inputs on their way to outputs: what the service needs to know to bring them there in turn with those of all others. */
import type { ItemSink, Rows } from "../engine/engine.ts";
import type { SconceError } from "../errors.ts";
import { withConsole } from "./captured-console.ts";

export interface ItemRun extends ItemSink {
  readonly count: number;
  /** Index of the next input that has not been begun. */
  next: number;
  /** Whether nobody waits for the items any more. */
  readonly isOver: boolean;
  /** Fires when nobody waits for the items any more. */
  readonly signal: AbortSignal;
  /** Whether every item has come to its end, so that there is nothing left to take away. */
  readonly isComplete: boolean;
  input(index: number): unknown;
  /** Calls the model's code for an item. */
  scope<T>(task: () => T): T;
  /**
   * @param output what the model made of the item's rows, not yet checked against the declared output
   * @throws SconceError `output_invalid`
   */
  itemSucceeded(index: number, output: unknown): void;
}

export interface ItemFault {
  readonly index: number;
  readonly message: string;
}

/** Turns an item's rows into its output; told of both in the end. */
export type RowsHandler = (run: ItemRun, index: number, rows: Rows) => void;

/** Names every bad input by its index, as far as that stays readable. */
export function summaryOf(faults: readonly ItemFault[], count: number): string {
  const shown = faults.slice(0, 10).map(({ index, message }) => `input ${index}: ${message}`);
  const rest = faults.length > shown.length ? `; and ${faults.length - shown.length} more, see errors` : "";
  return `${faults.length} of ${count} ${count === 1 ? "input" : "inputs"} failed: ${shown.join("; ")}${rest}`;
}

export interface DemoRunOptions {
  /** The demo prediction's. */
  readonly signal: AbortSignal;
  readonly onRows: RowsHandler;
  /** Takes what the model's code writes to `console` for these items. */
  readonly write: (text: string) => void;
}

/** Inputs that a demo sends through the model; the outputs stay as they are in code. */
export class DemoRun implements ItemRun {
  readonly count: number;
  readonly signal: AbortSignal;
  next = 0;
  readonly #inputs: readonly unknown[];
  readonly #outputs: unknown[];
  readonly #onRows: RowsHandler;
  readonly #write: (text: string) => void;
  readonly #result = Promise.withResolvers<unknown[]>();
  #left: number;
  #hasFailed = false;

  constructor(inputs: readonly unknown[], { signal, onRows, write }: DemoRunOptions) {
    this.count = inputs.length;
    this.signal = signal;
    this.#inputs = inputs;
    this.#outputs = new Array<unknown>(inputs.length);
    this.#onRows = onRows;
    this.#write = write;
    this.#left = inputs.length;
    if (this.#left === 0) this.#result.resolve([]);
  }

  get isOver(): boolean {
    return this.#left === 0 || this.signal.aborted;
  }

  /** One for each input, in their order; rejects with the first failure. */
  get outputs(): Promise<unknown[]> {
    return this.#result.promise;
  }

  /** Of a run that failed the others may still wait. */
  get isComplete(): boolean {
    return this.#left === 0 && !this.#hasFailed;
  }

  input(index: number): unknown {
    return this.#inputs[index];
  }

  scope<T>(task: () => T): T {
    return withConsole(this.#write, task);
  }

  dispatched(): void {}

  succeeded(index: number, rows: Rows): void {
    if (!this.isOver) this.#onRows(this, index, rows);
  }

  itemSucceeded(index: number, output: unknown): void {
    if (this.isOver) return;
    this.#outputs[index] = output;
    this.#left -= 1;
    if (this.#left === 0) this.#result.resolve(this.#outputs);
  }

  failed(_index: number, error: SconceError): void {
    this.end(error);
  }

  /** Gives up all that is not done. */
  end(error: SconceError): void {
    this.#hasFailed = true;
    this.#left = 0;
    this.#result.reject(error);
  }
}
