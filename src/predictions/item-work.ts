/** Runs the inputs of one prediction, and collects the outputs. */
import type { SconceError } from "../base/errors.ts";
import { reasonOf } from "../base/failure-reason.ts";
import type { FailureReason } from "../base/labels.ts";
import type { InputList } from "../pipeline/inputs/input-list.ts";
import { type ItemFault, itemFault, summaryOf } from "../pipeline/item-fault.ts";
import type { ItemFlow } from "../pipeline/item-flow.ts";
import { ItemList, type ItemListOptions, type OutputReceiver } from "../pipeline/item-list.ts";
import type { PartsReceiver } from "../pipeline/item-pipeline.ts";
import { listForm, type OutputEncoder, type TextForm } from "../pipeline/output-encoder.ts";
import { byteLengthOf, joined, listText, type Text, textOf } from "./large-text.ts";
import type { LivePrediction, Work } from "./live.ts";
import type { PredictionMetrics } from "./metrics.ts";

/** Maximum characters of an error message: `first` for the first 100 failed inputs of a prediction, else `later`. */
const MAX_MESSAGE = { first: 10_000, later: 500 };
const DETAILED_FAULTS = 100;

/** The parts that all predictions of a build share. Closures for each prediction would cost time and memory. */
export interface ItemWorkContext {
  readonly flow: Pick<ItemFlow, "run" | "end">;
  /** Converts outputs to JSON text. */
  readonly encoder: Pick<OutputEncoder, "encode">;
  readonly metrics: Pick<PredictionMetrics, "took">;
  processing(live: LivePrediction): void;
  expired(live: LivePrediction): void;
  /**
   * Called for the first failed input, and for the first that failed in the model's code; others are probably alike.
   */
  readonly onFault?: ((where: string, error: SconceError, about: LivePrediction) => void) | undefined;
  /** Called when a hook of the model writes a log line. */
  readonly onLog?: ((where: string, text: string, about: LivePrediction) => void) | undefined;
}

export class ItemWork implements OutputReceiver, Work {
  readonly textForm: TextForm;
  readonly list: ItemList;
  readonly parts: PartsReceiver | undefined;
  readonly #live: LivePrediction;
  readonly #context: ItemWorkContext;
  /** Outputs by index of the input. Failed and unfinished inputs leave holes. */
  #outputs: Text[] = [];
  #faults: ItemFault[] = [];
  /** Why the first failed input failed; the failed prediction gets the same reason. */
  #reason: FailureReason | undefined;
  #hasHiddenFault = false;

  constructor(live: LivePrediction, inputs: InputList, context: ItemWorkContext, options: ItemListOptions) {
    this.list = new ItemList(inputs, this, options);
    const { byteFields } = live.origin ?? {};
    this.textForm = byteFields === undefined ? listForm : { byteFields };
    this.#live = live;
    this.#context = context;
    this.parts = live.partsReceiver;
  }

  run(): void {
    this.#live.items = this.list;
    this.#live.begin(this);
    this.#context.flow.run(this.list);
  }

  processing(): void {
    if (!this.#live.isProcessing) this.#context.processing(this.#live);
  }

  expired(): void {
    this.#context.expired(this.#live);
  }

  dispatched(): void {
    this.#live.started();
  }

  succeeded(index: number, output: unknown): void {
    const beganMs = performance.now();
    const text = textOf(this.#context.encoder.encode(output, this.textForm));
    this.#context.metrics.took("encode", performance.now() - beganMs);
    this.#live.span?.took("encode", beganMs, index);
    if (!this.#live.take(byteLengthOf(text))) return;
    this.#outputs[index] = text;
    this.#live.itemsSucceeded += 1;
    this.#itemDone();
  }

  failed(index: number, error: SconceError): void {
    const reason = reasonOf(error.code);
    this.#reason ??= reason;
    this.#live.itemFailed(reason);
    const { message, ...fault } = itemFault(index, error);
    this.#faults.push({ ...fault, message: shortened(message, this.#faults.length < DETAILED_FAULTS) });
    // Clients do not see the text of an error in the model's code, so the log must have one such error.
    const isHidden = error.clientMessage !== error.message;
    if (this.#faults.length === 1 || (isHidden && !this.#hasHiddenFault))
      this.#context.onFault?.(this.#placeOf(index), error, this.#live);
    this.#hasHiddenFault ||= isHidden;
    this.#itemDone();
  }

  log(index: number, text: string): void {
    this.#context.onLog?.(this.#placeOf(index), text, this.#live);
  }

  get outputs(): readonly (Text | undefined)[] {
    return this.#outputs;
  }

  failure(message: string): Text {
    const live = this.#live;
    const members: Text[] = [`"error_message":${JSON.stringify(message)}`];
    if (this.#faults.length > 0) members.push(`"errors":${JSON.stringify(this.#faults)}`);
    if (live.itemsSucceeded > 0) {
      const partial = Array.from({ length: live.count }, (_, i) => this.#outputs[i] ?? "null");
      members.push(listText("partial_outputs", partial));
    }
    return joined(members, ",");
  }

  release(): void {
    this.#outputs = [];
    this.#faults = [];
    this.#context.flow.end(this.list);
  }

  #placeOf(index: number): string {
    return `prediction ${this.#live.id}, input ${index}`;
  }

  #itemDone(): void {
    const live = this.#live;
    live.itemDone();
    if (live.record.itemsDone < live.count) return;
    if (this.#faults.length === 0) {
      live.finish({ status: "success", members: listText("outputs", this.#outputs) });
    } else {
      this.#faults.sort((a, b) => a.index - b.index);
      live.end(summaryOf(this.#faults, live.count), this.#reason ?? "model");
    }
  }
}

/** Shortens an error message, because the author's code may put a whole input into it. */
function shortened(message: string, isFirst: boolean): string {
  const max = isFirst ? MAX_MESSAGE.first : MAX_MESSAGE.later;
  return message.length <= max ? message : `${message.slice(0, max)}…`;
}
