/** A prediction that this process runs, from its acceptance to its end. */
import type { FailureReason } from "../base/labels.ts";
import type { PartsReceiver } from "../pipeline/item-pipeline.ts";
import type { Charge } from "../pipeline/memory/charge.ts";
import { HELD_PER_OUTPUT_BYTE, type MemoryAccount } from "../pipeline/memory/memory-account.ts";
import type { PredictionSpan } from "../pipeline/spans.ts";
import { byteLengthOf, type Text, textOf } from "./large-text.ts";
import type { ModelVersion } from "./model-version.ts";
import { Observed } from "./observed.ts";
import type { PartLog } from "./part-log.ts";
import { type EndedRecord, hasEnded, type Kind, type Outcome, type PredictionRecord, pendingRecord } from "./record.ts";
import type { Origin, PredictionRequest } from "./request.ts";
import type { RunningBuild } from "./running-build.ts";
import type { Webhook } from "./webhooks/webhook.ts";

type MutableRecord = { -readonly [K in keyof PredictionRecord]: PredictionRecord[K] };

export interface LiveOptions {
  readonly request: PredictionRequest;
  readonly build?: RunningBuild;
  /** Size of the body in bytes, which admission counts until the prediction ends. */
  readonly bytes: number;
  /** Memory that the request occupies, freed at the end. */
  readonly charge: Charge;
  /** When the prediction times out, in milliseconds of `performance.now()`. */
  readonly deadlineMs: number;
  /** Pieces of outputs that the model yields early; undefined for a model that yields none. */
  readonly parts?: PartLog | undefined;
  readonly memory: MemoryAccount;
  /** Maximum bytes of all outputs. */
  readonly maxResultBytes: number;
  readonly onEnd: (live: LivePrediction, record: EndedRecord) => void;
}

/** Bytes of a prediction's outputs that the server accepts without free memory, so that accepted predictions can end. */
const ALWAYS_BYTES = 4096;

/** Counts the unfinished predictions of an API key. */
export interface UnfinishedCount {
  started(): void;
  ended(): void;
}

/** Operations on the running inputs, or the running demo, of a prediction. */
export interface Work {
  /** The JSON members of a failed prediction: the message, errors of inputs, and the outputs so far. */
  failure(errorMessage: string): Text;
  /** Outputs so far as JSON texts, by index of the input. */
  readonly outputs?: readonly (Text | undefined)[];
  /** Removes waiting inputs from the queue, and frees the memory of inputs and outputs. */
  release(): void;
}

export class LivePrediction extends Observed {
  readonly record: Readonly<MutableRecord>;
  /** The build that counts the prediction until it ends. */
  readonly build: RunningBuild | undefined;
  readonly bytes: number;
  readonly charge: Charge;
  readonly parts: PartLog | undefined;
  readonly deadlineMs: number;
  readonly timeoutMs: number;
  /** Time of creation in milliseconds of `performance.now()`. */
  readonly createdAtMs = performance.now();
  readonly origin: Origin | undefined;
  /** The request, until the store has it or the prediction ends. */
  request: PredictionRequest | undefined;
  webhook: Webhook | undefined;
  /** The API key that counts this prediction as unfinished. Stays the same object when the file of keys is reloaded. */
  key: UnfinishedCount | undefined;
  span: PredictionSpan | undefined;
  /** Whether the request was given to the store. */
  isStored = false;
  /** Whether the model's code has started on an input. */
  isProcessing = false;
  itemsSucceeded = 0;
  /** Whether the end is not recorded, because the client got an error or another process runs the prediction. */
  isWithdrawn = false;
  /** Numbers of failed inputs by reason; undefined if no input failed. */
  itemsFailed: Map<FailureReason, number> | undefined;
  failedFor: FailureReason | undefined;
  items: { readonly unsent: number; readonly heldBytes: number } | undefined;
  readonly #record: MutableRecord;
  readonly #memory: MemoryAccount;
  readonly #maxResultBytes: number;
  /** Bytes of the outputs so far. */
  #outputBytes = 0;
  #outputCharge: Charge | undefined;
  #work: Work | undefined;
  #onEnd: LiveOptions["onEnd"] | undefined;
  #abort: AbortController | undefined;

  constructor({ request, build, bytes, charge, deadlineMs, parts, memory, maxResultBytes, onEnd }: LiveOptions) {
    super();
    this.#record = pendingRecord(request);
    this.record = this.#record;
    this.request = request;
    this.build = build;
    this.timeoutMs = request.timeoutMs;
    this.origin = request.origin;
    this.webhook = request.webhook;
    this.bytes = bytes;
    this.charge = charge;
    this.parts = parts;
    this.deadlineMs = deadlineMs;
    this.#memory = memory;
    this.#maxResultBytes = maxResultBytes;
    this.#onEnd = onEnd;
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
    return this.items === undefined ? this.#record.startedAtMs === undefined : this.items.unsent > 0;
  }

  /** Whether the request or its webhook must still be given to the store. */
  get mustStore(): boolean {
    return !this.isStored && (this.request !== undefined || this.webhook !== undefined);
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

  /** Sets the work, which later calls of `end` and `finish` release. */
  begin(work: Work): void {
    this.#work = work;
  }

  /** Records the start: the first batch with an input started, or the demo began. */
  started(): void {
    if (this.#record.startedAtMs !== undefined || this.isOver) return;
    this.#record.startedAtMs = Date.now();
    this.changed();
  }

  itemFailed(reason: FailureReason): void {
    this.itemsFailed ??= new Map();
    this.itemsFailed.set(reason, (this.itemsFailed.get(reason) ?? 0) + 1);
  }

  itemDone(): void {
    if (this.isOver) return;
    this.#record.itemsDone += 1;
    this.changed();
  }

  /**
   * Counts an output, or a piece of an output that the model yields early. Ends the prediction if its outputs exceed
   * the limit of a prediction or --max-memory.
   * @param own charge of the pieces; by default the bytes are charged until the prediction ends
   * @returns whether the prediction takes the output
   */
  take(bytes: number, own?: Charge): boolean {
    const memory = this.#memory;
    const { maxOutputBytes } = memory;
    const maxBytes = Math.min(this.#maxResultBytes, maxOutputBytes);
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
    (own ?? this.#outputCharge).grow(held);
    return true;
  }

  /** Receives the pieces of outputs that the model yields early; undefined for a model that yields none. */
  get partsReceiver(): PartsReceiver | undefined {
    const { parts } = this;
    return (
      parts && {
        add: (index, encoded) => {
          const text = textOf(encoded);
          if (!this.take(byteLengthOf(text), parts.charge)) return;
          parts.add(index, text);
          this.changed();
        },
        // Clients drop the parts of an input that runs again when a part has sequence number 0 again.
        restart: (index) => {
          this.#outputBytes -= parts.restart(index);
        },
      }
    );
  }

  log(text: string): void {
    if (this.isOver) return;
    this.#record.logs += text;
    this.changed();
  }

  /** Fails the prediction, for example with the message "Canceled". Does nothing if the prediction has ended. */
  end(errorMessage: string, reason: FailureReason): void {
    if (this.isOver) return;
    this.failedFor = reason;
    const members = this.#work?.failure(errorMessage) ?? `"error_message":${JSON.stringify(errorMessage)}`;
    this.finish({ status: "failed", members });
  }

  finish(outcome: Outcome): void {
    if (this.isOver) return;
    const record = this.#record;
    record.outcome = outcome;
    record.finishedAtMs = Date.now();
    this.request = undefined;
    this.#work?.release();
    this.#work = undefined;
    this.charge[Symbol.dispose]();
    this.#outputCharge?.[Symbol.dispose]();
    this.parts?.[Symbol.dispose]();
    this.#abort?.abort();
    if (hasEnded(record)) this.#onEnd?.(this, record);
    this.#onEnd = undefined;
    this.callWaiters();
    this.changed();
  }

  /** Bytes that this prediction holds. If nothing else holds memory, `hasRoom` accepts any output. */
  get #heldBytes(): number {
    const outputs = (this.#outputCharge?.bytes ?? 0) + (this.parts?.charge.bytes ?? 0);
    return outputs + this.charge.bytes + (this.items?.heldBytes ?? 0);
  }

  /** Outputs so far, as JSON by index of the input; empty after the end. */
  get outputs(): readonly (Text | undefined)[] {
    return this.#work?.outputs ?? [];
  }
}
