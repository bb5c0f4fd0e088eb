/** Inputs that a demo sends through the model; the outputs stay as they are in code. */
import type { Rows } from "../engine/engine.ts";
import type { SconceError } from "../errors.ts";
import { withConsole } from "./captured-console.ts";
import { atInput } from "./item-fault.ts";
import type { ItemRun, RowsHandler } from "./item-run.ts";

export interface DemoRunOptions {
  /** The inputs of the request, whose errors tell their index there; a demo also sends others that it made itself. */
  readonly requested?: readonly unknown[];
  /** The demo prediction's. */
  readonly signal: AbortSignal;
  readonly onRows: RowsHandler;
  /** Takes what the model's code writes to `console` for these items; answers false once it takes no more. */
  readonly write: (text: string) => unknown;
}

export class DemoRun implements ItemRun {
  readonly count: number;
  readonly signal: AbortSignal;
  next = 0;
  ring: ItemRun["ring"] = undefined;
  before: ItemRun | undefined = undefined;
  after: ItemRun | undefined = undefined;
  readonly #inputs: readonly unknown[];
  readonly #requested: readonly unknown[];
  readonly #outputs: unknown[];
  readonly #onRows: RowsHandler;
  readonly #write: (text: string) => unknown;
  readonly #result = Promise.withResolvers<unknown[]>();
  #left: number;
  #hasFailed = false;

  constructor(inputs: readonly unknown[], { requested = [], signal, onRows, write }: DemoRunOptions) {
    this.count = inputs.length;
    this.signal = signal;
    this.#inputs = inputs;
    this.#requested = requested;
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

  failed(index: number, error: SconceError): void {
    const at = this.#requested.indexOf(this.#inputs[index]);
    this.end(at < 0 ? error : atInput(at, error));
  }

  /** Gives up all that is not done. */
  end(error: SconceError): void {
    this.#hasFailed = true;
    this.#left = 0;
    this.#result.reject(error);
  }
}
