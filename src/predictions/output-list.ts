/** From the outputs of a prediction's inputs to its outcome. */
import type { SconceError } from "../errors.ts";
import type { Charge } from "../memory/charge.ts";
import type { MemoryAccount } from "../memory/memory-account.ts";
import { type FailureReason, reasonOf } from "../metrics/labels.ts";
import { type ItemFault, summaryOf } from "../serving/item-fault.ts";
import type { OutputReceiver, Refusal } from "../serving/item-list.ts";
import type { LivePrediction, Work } from "./live.ts";

export interface OutputListOptions {
  readonly live: LivePrediction;
  /** An output as JSON text; throws SconceError `output_invalid`. */
  readonly encode: (output: unknown) => string;
  readonly onEncoded: (ms: number) => void;
  readonly onBegun: () => void;
  readonly onRefused: (why: Refusal) => void;
  /** Told of the first input that failed: the others are likely to have failed alike. */
  readonly onFault: (index: number, error: SconceError) => void;
  /** Most bytes of all outputs together; a prediction with more fails. */
  readonly maxResultBytes: number;
  readonly memory: MemoryAccount;
}

export class OutputList implements OutputReceiver, Work {
  readonly #options: OutputListOptions;
  #outputs: (string | undefined)[] = [];
  #faults: ItemFault[] = [];
  /** Of the first fault. */
  #reason: FailureReason | undefined;
  #bytes = 0;
  /** Of the outputs, while there are others to come. */
  #charge: Charge | undefined;
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
    const { live, encode, onEncoded, maxResultBytes, memory } = this.#options;
    const beganMs = performance.now();
    const text = encode(output);
    onEncoded(performance.now() - beganMs);
    const bytes = Buffer.byteLength(text);
    this.#bytes += bytes;
    if (this.#bytes > maxResultBytes) {
      live.end(`The outputs have more than ${maxResultBytes} bytes; send fewer inputs in one request`, "size");
      return;
    }
    this.#outputs[index] = text;
    live.itemsSucceeded += 1;
    this.#itemDone();
    if (live.isOver) return;
    this.#charge ??= memory.add("outputs", 0);
    this.#charge.grow(bytes);
  }

  failed(index: number, error: SconceError): void {
    const reason = reasonOf(error.code);
    this.#reason ??= reason;
    this.#options.live.itemFailed(reason);
    this.#faults.push({ index, message: error.message });
    if (this.#faults.length === 1) this.#options.onFault(index, error);
    this.#itemDone();
  }

  failure(message: string): string {
    const { live } = this.#options;
    const members = [`"error_message":${JSON.stringify(message)}`];
    if (this.#faults.length > 0) members.push(`"errors":${JSON.stringify(this.#faults)}`);
    if (live.itemsSucceeded > 0) {
      const partial = Array.from({ length: live.count }, (_, i) => this.#outputs[i] ?? "null");
      members.push(`"partial_outputs":[${partial.join(",")}]`);
    }
    return members.join(",");
  }

  release(): void {
    this.#outputs = [];
    this.#faults = [];
    this.#charge?.[Symbol.dispose]();
  }

  #itemDone(): void {
    const { live } = this.#options;
    live.itemDone();
    if (live.record.itemsDone < live.count) return;
    if (this.#faults.length === 0) {
      live.finish({ status: "success", members: `"outputs":[${this.#outputs.join(",")}]` });
    } else {
      this.#faults.sort((a, b) => a.index - b.index);
      live.end(summaryOf(this.#faults, live.count), this.#reason ?? "model");
    }
  }
}
