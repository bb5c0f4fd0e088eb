/** From the outputs of a prediction's inputs to its outcome. */
import type { SconceError } from "../errors.ts";
import { type FailureReason, reasonOf } from "../metrics/labels.ts";
import { type ItemFault, summaryOf } from "../serving/item-fault.ts";
import type { OutputReceiver, Refusal } from "../serving/item-list.ts";
import type { Encoded } from "../serving/item-pipeline.ts";
import { byteLengthOf, joined, listText, type Text, textOf } from "./large-text.ts";
import type { LivePrediction, Work } from "./live.ts";
import type { OutputMemory } from "./output-memory.ts";

/** Longest message of a fault, in characters; of those that come after many others it is shorter. */
const MAX_MESSAGE = { first: 10_000, later: 500 };
const DETAILED_FAULTS = 100;

export interface OutputListOptions {
  readonly live: LivePrediction;
  /** An output as JSON text; throws SconceError `output_invalid`. */
  readonly encode: (output: unknown) => Encoded;
  readonly onEncoded: (ms: number) => void;
  readonly onBegun: () => void;
  readonly onRefused: (why: Refusal) => void;
  /** Told of the first input that failed: the others are likely to have failed alike. */
  readonly onFault: (index: number, error: SconceError) => void;
  readonly memory: OutputMemory;
}

export class OutputList implements OutputReceiver, Work {
  readonly takesText = true;
  readonly #options: OutputListOptions;
  /** Has holes where inputs are not done, or failed. */
  #outputs: Text[] = [];
  #faults: ItemFault[] = [];
  /** Of the first fault. */
  #reason: FailureReason | undefined;
  #hasBegun = false;

  constructor(options: OutputListOptions) {
    this.#options = options;
  }

  begun(): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    this.#options.onBegun();
  }

  refused(why: Refusal): void {
    this.#options.onRefused(why);
  }

  dispatched(): void {
    this.#options.live.started();
  }

  succeeded(index: number, output: unknown): void {
    const { live, encode, onEncoded, memory } = this.#options;
    const beganMs = performance.now();
    const text = textOf(encode(output));
    onEncoded(performance.now() - beganMs);
    const refusal = memory.take(byteLengthOf(text));
    if (refusal !== undefined) {
      live.end(refusal.message, refusal.reason);
      return;
    }
    this.#outputs[index] = text;
    live.itemsSucceeded += 1;
    this.#itemDone();
  }

  failed(index: number, error: SconceError): void {
    const reason = reasonOf(error.code);
    this.#reason ??= reason;
    this.#options.live.itemFailed(reason);
    this.#faults.push({ index, message: shortened(error.message, this.#faults.length < DETAILED_FAULTS) });
    if (this.#faults.length === 1) this.#options.onFault(index, error);
    this.#itemDone();
  }

  get outputs(): readonly (Text | undefined)[] {
    return this.#outputs;
  }

  failure(message: string): Text {
    const { live } = this.#options;
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
    this.#options.memory[Symbol.dispose]();
  }

  #itemDone(): void {
    const { live } = this.#options;
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

/** The author's code may put whatever it has into a message. */
function shortened(message: string, isFirst: boolean): string {
  const max = isFirst ? MAX_MESSAGE.first : MAX_MESSAGE.later;
  return message.length <= max ? message : `${message.slice(0, max)}…`;
}
