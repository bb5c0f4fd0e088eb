/** A prediction that this process runs, from its acceptance to its end: its inputs, its outputs, and its record. */
import type { InRing, Ring } from "../base/collections/ring.ts";
import type { SconceError } from "../base/errors.ts";
import { reasonOf } from "../base/failure-reason.ts";
import type { FailureReason } from "../base/labels.ts";
import { byteLengthOf, joined, listText, type Text, textOf } from "../base/large-text.ts";
import type { ModelVersion } from "../package/model-version.ts";
import type { Sender } from "../pipeline/client.ts";
import type { InputList } from "../pipeline/inputs/input-list.ts";
import { type ItemFault, itemFault, summaryOf } from "../pipeline/item-fault.ts";
import type { ItemFlow } from "../pipeline/item-flow.ts";
import { ItemList, type OutputReceiver } from "../pipeline/item-list.ts";
import type { PartsReceiver } from "../pipeline/item-pipeline.ts";
import type { Charge } from "../pipeline/memory/charge.ts";
import { HELD_PER_OUTPUT_BYTE, type MemoryAccount } from "../pipeline/memory/memory-account.ts";
import { listForm, type OutputEncoder, type TextForm } from "../pipeline/output-encoder.ts";
import type { PredictionSpan } from "../pipeline/spans.ts";
import { EventLog } from "./event-log.ts";
import type { PredictionMetrics } from "./metrics.ts";
import { Observed } from "./observed.ts";
import { type EndedRecord, hasEnded, type Kind, type Outcome, type PredictionRecord, pendingRecord } from "./record.ts";
import type { Origin, PredictionRequest } from "./request.ts";
import type { RunningBuild } from "./running-build.ts";
import type { Webhook } from "./webhooks/webhook.ts";

/** The parts that all predictions of a build share. Closures for each prediction would cost time and memory. */
export interface LiveContext {
  /** The build, which counts the prediction until it ends. */
  readonly build?: RunningBuild;
  readonly flow: Pick<ItemFlow, "run" | "end">;
  /** Converts outputs to JSON text. */
  readonly encoder: Pick<OutputEncoder, "encode">;
  /** Whether the model yields pieces of outputs early. */
  readonly hasParts: boolean;
  readonly memory: MemoryAccount;
  /** Maximum bytes of all outputs. */
  readonly maxResultBytes: number;
  readonly metrics: Pick<PredictionMetrics, "took">;
  /** Called before the model's code starts on the first input. */
  onStart(live: LivePrediction): void;
  /** Called when no input can end before the time limit. */
  onTimeout(live: LivePrediction): void;
  onEnd(live: LivePrediction, record: EndedRecord, nowMs: number): void;
  /**
   * Called for the first failed input, and for the first that failed in the model's code; others are probably alike.
   */
  readonly onFault?: ((where: string, error: SconceError, about: LivePrediction) => void) | undefined;
  /** Called when a hook of the model writes a log line. */
  readonly onLog?: ((where: string, text: string, about: LivePrediction) => void) | undefined;
}

export interface LiveOptions {
  /** Size of the body in bytes, which admission counts until the prediction ends. */
  readonly bytes: number;
  /** Memory that the request occupies, freed at the end. */
  readonly charge: Charge;
  /** The present time of `performance.now()`. */
  readonly nowMs: number;
  /** When the prediction times out, in milliseconds of `performance.now()`. */
  readonly deadlineMs: number;
}

/** Bytes of a prediction's outputs that the server accepts without free memory, so that accepted predictions can end. */
const ALWAYS_BYTES = 4096;
/** Maximum characters of an error message: `first` for the first 100 failed inputs of a prediction, else `later`. */
const MAX_MESSAGE = { first: 10_000, later: 500 };
const DETAILED_FAULTS = 100;

export class LivePrediction extends Observed implements OutputReceiver, InRing<LivePrediction> {
  ring: Ring<LivePrediction> | undefined = undefined;
  before: LivePrediction | undefined = undefined;
  after: LivePrediction | undefined = undefined;
  readonly record: Readonly<MutableRecord>;
  readonly context: LiveContext;
  readonly bytes: number;
  readonly charge: Charge;
  readonly deadlineMs: number;
  readonly timeoutMs: number;
  /** Time of creation in milliseconds of `performance.now()`. */
  readonly createdAtMs: number;
  readonly origin: Origin | undefined;
  readonly textForm: TextForm;
  /** Receives pieces of outputs that the model yields early; undefined for a model that yields none. */
  readonly parts: PartsReceiver | undefined;
  /** The request, until the store has it or the prediction ends. */
  request: PredictionRequest | undefined;
  webhook: Webhook | undefined;
  span: PredictionSpan | undefined;
  /**
   * Where the outcome goes. `memory`: the client that waits gets it, and the store keeps it in memory. `store`: the store
   * has the request, or is writing it. `none`: another process runs the prediction, or its client got an error.
   */
  storage: "memory" | "store" | "none" = "memory";
  /** Whether the model's code has started on an input. */
  isProcessing = false;
  itemsSucceeded = 0;
  /** Numbers of failed inputs by reason; undefined if no input failed. */
  itemsFailed: Map<FailureReason, number> | undefined;
  failedFor: FailureReason | undefined;
  /** Outputs so far, as JSON by index of the input. Failed and unfinished inputs leave holes. Empty after the end. */
  outputs: Text[] = [];
  readonly #record: MutableRecord;
  /** The failed inputs; undefined if no input failed. */
  #faults: ItemFault[] | undefined;
  /** Why the first failed input failed; the failed prediction gets the same reason. */
  #reason: FailureReason | undefined;
  #hasHiddenFault = false;
  /** The running inputs; undefined for a demo. */
  #items: ItemList | undefined;
  /** Bytes of the outputs so far. */
  #outputBytes = 0;
  #outputCharge: Charge | undefined;
  /** Undefined while no part and no reader needs it. Then it owns `#outputCharge`. */
  #events: EventLog | undefined;
  #abort: AbortController | undefined;

  constructor(request: PredictionRequest, { bytes, charge, nowMs, deadlineMs }: LiveOptions, context: LiveContext) {
    super();
    this.createdAtMs = nowMs;
    this.#record = pendingRecord(request);
    this.record = this.#record;
    this.request = request;
    this.context = context;
    this.timeoutMs = request.timeoutMs;
    this.origin = request.origin;
    this.webhook = request.webhook;
    this.bytes = bytes;
    this.charge = charge;
    this.deadlineMs = deadlineMs;
    const { byteFields } = request.origin ?? {};
    this.textForm = byteFields === undefined ? listForm : { byteFields };
    if (context.hasParts) this.parts = this.#partsReceiver();
  }

  get id(): string {
    return this.#record.id;
  }

  get kind(): Kind {
    return this.#record.kind;
  }

  get model(): ModelVersion | undefined {
    return this.#record.model;
  }

  get count(): number {
    return this.#record.count;
  }

  /** Whether any input is in no batch yet. */
  get isWaiting(): boolean {
    return this.#items === undefined ? this.#record.startedAtMs === undefined : this.#items.unsent > 0;
  }

  get isOver(): boolean {
    return this.#record.outcome !== undefined;
  }

  /** A signal that aborts when the prediction ends. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.isOver) this.#abort.abort();
    return this.#abort.signal;
  }

  /** The log of outputs and parts, from the first one on. Callers hold it. */
  get events(): EventLog {
    if (this.#events === undefined) {
      this.#outputCharge ??= this.context.memory.add("outputs", 0);
      const events = new EventLog(this.#outputCharge);
      this.outputs.forEach((text, index) => {
        events.addOutput(index, text);
      });
      this.#events = events;
    }
    return this.#events;
  }

  /** Runs the inputs. @param sender undefined if the sender need not be known */
  run(inputs: InputList, sender?: Sender): ItemList {
    const { deadlineMs, id, span } = this;
    this.#items = new ItemList(inputs, this, { deadlineMs, sender, predictionId: id, span });
    this.context.flow.run(this.#items);
    return this.#items;
  }

  processing(): void {
    if (this.isProcessing) return;
    this.isProcessing = true;
    this.context.onStart(this);
  }

  expired(): void {
    this.context.onTimeout(this);
  }

  /** Records the start: the first batch with an input started, or the demo began. */
  dispatched(): void {
    if (this.#record.startedAtMs !== undefined || this.isOver) return;
    this.#record.startedAtMs = Date.now();
    this.changed();
  }

  succeeded(index: number, output: unknown, beganMs = performance.now()): void {
    const { encoder, metrics } = this.context;
    const text = textOf(encoder.encode(output, this.textForm));
    const nowMs = performance.now();
    metrics.took("encode", nowMs - beganMs);
    this.span?.took("encode", beganMs, index);
    if (!this.take(byteLengthOf(text))) return;
    this.#addOutput(index, text);
    this.itemsSucceeded += 1;
    this.#itemEnded(nowMs);
  }

  failed(index: number, error: SconceError): void {
    const reason = reasonOf(error.code);
    this.#reason ??= reason;
    this.itemsFailed ??= new Map();
    this.itemsFailed.set(reason, (this.itemsFailed.get(reason) ?? 0) + 1);
    const { message, ...fault } = itemFault(index, error);
    this.#faults ??= [];
    this.#faults.push({ ...fault, message: shortened(message, this.#faults.length < DETAILED_FAULTS) });
    // Clients do not see the text of an error in the model's code, so the log must have one such error.
    const isHidden = error.clientMessage !== error.message;
    if (this.#faults.length === 1 || (isHidden && !this.#hasHiddenFault))
      this.context.onFault?.(this.#placeOf(index), error, this);
    this.#hasHiddenFault ||= isHidden;
    this.#itemEnded();
  }

  log(index: number, text: string): void {
    this.context.onLog?.(this.#placeOf(index), text, this);
  }

  /** Adds an output of a demo without a `demo` function, which `take` has counted. */
  demoOutput(index: number, text: Text): void {
    this.#addOutput(index, text);
    this.#itemDone();
  }

  /** Appends to the logs of a demo. */
  addLog(text: string): void {
    if (this.isOver) return;
    this.#record.logs += text;
    this.changed();
  }

  /**
   * Counts an output, or a piece of an output that the model yields early. Ends the prediction if its outputs exceed
   * the limit of a prediction or --max-memory.
   * @returns whether the prediction takes the output
   */
  take(bytes: number): boolean {
    const { memory, maxResultBytes } = this.context;
    const { maxOutputBytes } = memory;
    const maxBytes = Math.min(maxResultBytes, maxOutputBytes);
    // Counts garbage: the output is JSON text now, and the model's output object is no longer used.
    memory.dropped(bytes);
    if (this.isOver) return false;
    this.#outputBytes += bytes;
    if (this.#outputBytes > maxBytes) {
      const is = this.count === 1 ? "The output has" : "The outputs have";
      const fix = this.count === 1 ? "" : "; send fewer inputs in one request";
      const limit = maxBytes < maxOutputBytes ? "the limit of one prediction" : "--max-memory";
      this.end(`${is} more than ${Math.floor(maxBytes)} bytes (${limit})${fix}`, "size");
      return false;
    }
    this.#outputCharge ??= memory.add("outputs", 0);
    const held = HELD_PER_OUTPUT_BYTE * bytes;
    const isSmall = this.#outputBytes <= ALWAYS_BYTES;
    if (!isSmall && !memory.hasRoom("outputs", held) && !memory.hasRoom("outputs", held, this.#heldBytes)) {
      this.end("The server's memory is taken by other requests (--max-memory); try again later", "memory");
      return false;
    }
    this.#outputCharge.grow(held);
    return true;
  }

  /**
   * Fails the prediction, for example with the message "Canceled". Does nothing if the prediction has ended.
   * @param fault the input that failed in a demo
   */
  end(errorMessage: string, reason: FailureReason, fault?: ItemFault): void {
    if (this.isOver) return;
    this.failedFor = reason;
    const faults = fault === undefined ? this.#faults : [fault];
    const members: Text[] = [`"error_message":${JSON.stringify(errorMessage)}`];
    if (faults !== undefined) members.push(`"errors":${JSON.stringify(faults)}`);
    if (this.itemsSucceeded > 0) {
      const partial = Array.from({ length: this.count }, (_, i) => this.outputs[i] ?? "null");
      members.push(listText("partial_outputs", partial));
    }
    this.finish({ status: "failed", members: joined(members, ",") });
  }

  /** Ends the prediction. @param nowMs the present time of `performance.now()`, if the caller knows it */
  finish(outcome: Outcome, nowMs = performance.now()): void {
    if (this.isOver) return;
    const record = this.#record;
    record.outcome = outcome;
    record.finishedAtMs = Date.now();
    this.request = undefined;
    this.outputs = [];
    this.#faults = undefined;
    if (this.#items !== undefined) this.context.flow.end(this.#items);
    this.#items = undefined;
    this.charge[Symbol.dispose]();
    (this.#events ?? this.#outputCharge)?.[Symbol.dispose]();
    this.#abort?.abort();
    if (hasEnded(record)) this.context.onEnd(this, record, nowMs);
    this.changed();
  }

  #addOutput(index: number, text: Text): void {
    this.outputs[index] = text;
    this.#events?.addOutput(index, text);
  }

  #itemEnded(nowMs?: number): void {
    this.#itemDone();
    if (this.isOver || this.#record.itemsDone < this.count) return;
    if (this.#faults === undefined) {
      this.finish({ status: "success", members: listText("outputs", this.outputs) }, nowMs);
    } else {
      this.#faults.sort((a, b) => a.index - b.index);
      this.end(summaryOf(this.#faults, this.count), this.#reason ?? "model");
    }
  }

  #itemDone(): void {
    if (this.isOver) return;
    this.#record.itemsDone += 1;
    this.changed();
  }

  #partsReceiver(): PartsReceiver {
    return {
      add: (index, encoded) => {
        const text = textOf(encoded);
        if (!this.take(byteLengthOf(text))) return;
        this.events.addPart(index, text);
        this.changed();
      },
      // Clients drop the parts of an input that runs again when a part has sequence number 0 again.
      restart: (index) => {
        this.#outputBytes -= this.#events?.restart(index) ?? 0;
      },
    };
  }

  /** Bytes that this prediction holds. If nothing else holds memory, `hasRoom` accepts any output. */
  get #heldBytes(): number {
    return (this.#outputCharge?.bytes ?? 0) + this.charge.bytes + (this.#items?.heldBytes ?? 0);
  }

  #placeOf(index: number): string {
    return `prediction ${this.id}, input ${index}`;
  }
}

type MutableRecord = { -readonly [K in keyof PredictionRecord]: PredictionRecord[K] };

/** Shortens an error message, because the author's code may put a whole input into it. */
function shortened(message: string, isFirst: boolean): string {
  const max = isFirst ? MAX_MESSAGE.first : MAX_MESSAGE.later;
  return message.length <= max ? message : `${message.slice(0, max)}…`;
}
