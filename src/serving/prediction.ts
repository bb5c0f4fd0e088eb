/** One prediction: a list of inputs on its way to a list of outputs. */
import type { Rows } from "../engine/engine.ts";
import type { SconceError } from "../errors.ts";
import { type InputList, noInputs } from "../inputs/input-list.ts";
import { type ItemFault, summaryOf } from "./item-fault.ts";
import type { ItemRun, RowsHandler } from "./item-run.ts";
import { PredictionRecord, type RecordOptions } from "./record.ts";

export interface PredictionOptions extends RecordOptions {
  /** The prediction owns the list and empties it. */
  readonly inputs: InputList;
  readonly onRows: RowsHandler;
  /** An output as JSON text; throws SconceError `output_invalid`. */
  readonly encode: (output: unknown) => string;
  /** Told of the first input that failed: the others are likely to have failed alike. */
  readonly onFault: (prediction: Prediction, index: number, error: SconceError) => void;
  /** Most bytes of all outputs together; a prediction with more fails. */
  readonly maxResultBytes: number;
}

export class Prediction extends PredictionRecord implements ItemRun {
  next = 0;
  ring: ItemRun["ring"] = undefined;
  before: ItemRun | undefined = undefined;
  after: ItemRun | undefined = undefined;
  #inputs: InputList;
  #outputs: (string | undefined)[] = [];
  #faults: ItemFault[] = [];
  #succeeded = 0;
  /** Items that have succeeded or failed. */
  #ended = 0;
  readonly #onRows: RowsHandler;
  readonly #encode: (output: unknown) => string;
  readonly #onFault: PredictionOptions["onFault"];
  readonly #maxResultBytes: number;
  #resultBytes = 0;

  constructor(options: PredictionOptions) {
    super(options);
    this.#inputs = options.inputs;
    this.#onRows = options.onRows;
    this.#encode = options.encode;
    this.#onFault = options.onFault;
    this.#maxResultBytes = options.maxResultBytes;
  }

  override get itemsSucceeded(): number {
    return this.#succeeded;
  }

  get isComplete(): boolean {
    return this.#ended === this.count;
  }

  input(index: number): unknown {
    return this.#inputs.get(index);
  }

  scope<T>(task: () => T): T {
    return task();
  }

  dispatched(): void {
    this.startedAtMs ??= Date.now();
  }

  succeeded(index: number, rows: Rows): void {
    if (!this.isOver) this.#onRows(this, index, rows);
  }

  failed(index: number, error: SconceError): void {
    if (this.isOver) return;
    this.#faults.push({ index, message: error.message });
    if (this.#faults.length === 1) this.#onFault(this, index, error);
    this.#itemEnded(index);
  }

  itemSucceeded(index: number, output: unknown): void {
    if (this.isOver) return;
    const text = this.#encode(output);
    this.#resultBytes += text.length;
    if (this.#resultBytes > this.#maxResultBytes) {
      this.end(`The outputs have more than ${this.#maxResultBytes} bytes; send fewer inputs in one request`);
      return;
    }
    this.#outputs[index] = text;
    this.#succeeded += 1;
    this.#itemEnded(index);
  }

  #itemEnded(index: number): void {
    this.#inputs.drop(index);
    this.#ended += 1;
    if (!this.isComplete) return;
    if (this.#faults.length === 0) {
      this.finish({ status: "success", members: `"outputs":[${this.#outputs.join(",")}]` });
    } else {
      this.#faults.sort((a, b) => a.index - b.index);
      this.finish({ status: "failed", members: this.failure(summaryOf(this.#faults, this.count)) });
    }
  }

  protected override failure(message: string): string {
    const members = [`"error_message":${JSON.stringify(message)}`];
    if (this.#faults.length > 0) members.push(`"errors":${JSON.stringify(this.#faults)}`);
    if (this.#succeeded > 0) {
      const partial = Array.from({ length: this.count }, (_, i) => this.#outputs[i] ?? "null");
      members.push(`"partial_outputs":[${partial.join(",")}]`);
    }
    return members.join(",");
  }

  protected override release(): void {
    this.#inputs = noInputs;
    this.#outputs = [];
    this.#faults = [];
  }
}
