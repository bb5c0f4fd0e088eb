/** One prediction: its states, its items' results, and who waits for its end. */
import type { ItemSink, Rows } from "../engine/engine.ts";
import type { SconceError } from "../errors.ts";

export type Status = "pending" | "running" | "success" | "failed";

/** Once a prediction has such a status nothing about it changes any more. */
export function isTerminal(status: Status): boolean {
  return status === "success" || status === "failed";
}

export interface ItemFault {
  readonly index: number;
  readonly message: string;
}

/** How a prediction ended, with everything that a client may read of it as JSON text: formatted once, exact in bytes. */
export interface Outcome {
  readonly status: "success" | "failed";
  /** The members of the prediction's JSON object that say how it ended, without braces. */
  readonly members: string;
}

/** What a prediction asks of whoever made it. */
export interface PredictionOwner {
  /** An item's rows are there: turn them into an output. */
  rowsArrived(prediction: Prediction, index: number, rows: Rows): void;
  ended(prediction: Prediction): void;
}

export interface PredictionOptions {
  readonly id: string;
  /** Decoded inputs; the prediction owns the list and empties it. */
  readonly inputs: unknown[];
  /** Bytes of the request's body, which count until the prediction ends. */
  readonly bytes: number;
  /** When its time is up, in `Date.now()` milliseconds. */
  readonly deadlineMs: number;
  readonly owner: PredictionOwner;
}

/** A list of inputs on its way to a list of outputs. */
export class Prediction implements ItemSink {
  readonly id: string;
  readonly bytes: number;
  readonly count: number;
  readonly deadlineMs: number;
  readonly createdAtMs = Date.now();
  startedAtMs: number | undefined;
  finishedAtMs: number | undefined;
  /** Index of the next input that has not been begun. */
  next = 0;
  outcome: Outcome | undefined;
  #inputs: unknown[];
  #outputs: (string | undefined)[] = [];
  #faults: ItemFault[] = [];
  #succeeded = 0;
  #owner: PredictionOwner | undefined;
  #waiters: (() => void)[] | undefined;
  #abort: AbortController | undefined;

  constructor({ id, inputs, bytes, deadlineMs, owner }: PredictionOptions) {
    this.id = id;
    this.bytes = bytes;
    this.count = inputs.length;
    this.deadlineMs = deadlineMs;
    this.#inputs = inputs;
    this.#owner = owner;
  }

  get status(): Status {
    if (this.outcome !== undefined) return this.outcome.status;
    return this.startedAtMs === undefined ? "pending" : "running";
  }

  get itemsSucceeded(): number {
    return this.#succeeded;
  }

  /** Fires when the prediction ends early; made only for those who ask. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.outcome !== undefined) this.#abort.abort();
    return this.#abort.signal;
  }

  input(index: number): unknown {
    return this.#inputs[index];
  }

  dispatched(): void {
    this.startedAtMs ??= Date.now();
  }

  succeeded(index: number, rows: Rows): void {
    if (this.outcome === undefined) this.#owner?.rowsArrived(this, index, rows);
  }

  failed(index: number, error: SconceError): void {
    if (this.outcome !== undefined) return;
    this.#faults.push({ index, message: error.message });
    this.#itemEnded(index);
  }

  /** @param output the item's output as JSON text */
  itemSucceeded(index: number, output: string): void {
    if (this.outcome !== undefined) return;
    this.#outputs[index] = output;
    this.#succeeded += 1;
    this.#itemEnded(index);
  }

  /** Ends the prediction before its items have ended, e.g. with "Canceled". What succeeded is kept. */
  end(errorMessage: string): void {
    if (this.outcome !== undefined) return;
    this.#finish({ status: "failed", members: this.#failure(errorMessage) });
  }

  /** Resolves at the end, after `timeoutMs`, or when `signal` fires, whichever comes first. */
  wait(timeoutMs: number, signal: AbortSignal | undefined): Promise<void> {
    if (this.outcome !== undefined || timeoutMs <= 0 || signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, timeoutMs);
      signal?.addEventListener("abort", done);
      this.#waiters ??= [];
      this.#waiters.push(done);
    });
  }

  #itemEnded(index: number): void {
    this.#inputs[index] = undefined;
    if (this.#succeeded + this.#faults.length < this.count) return;
    if (this.#faults.length === 0) {
      this.#finish({ status: "success", members: `"outputs":[${this.#outputs.join(",")}]` });
    } else {
      this.#faults.sort((a, b) => a.index - b.index);
      this.#finish({ status: "failed", members: this.#failure(summary(this.#faults, this.count)) });
    }
  }

  #failure(message: string): string {
    const members = [`"error_message":${JSON.stringify(message)}`];
    if (this.#faults.length > 0) members.push(`"errors":${JSON.stringify(this.#faults)}`);
    if (this.#succeeded > 0) {
      const partial = Array.from({ length: this.count }, (_, i) => this.#outputs[i] ?? "null");
      members.push(`"partial_outputs":[${partial.join(",")}]`);
    }
    return members.join(",");
  }

  #finish(outcome: Outcome): void {
    this.finishedAtMs = Date.now();
    this.outcome = outcome;
    // An ended prediction is kept for its readers: it holds on to nothing but what they can read.
    this.#inputs = [];
    this.#outputs = [];
    this.#faults = [];
    this.#abort?.abort();
    this.#abort = undefined;
    const waiters = this.#waiters;
    this.#waiters = undefined;
    const owner = this.#owner;
    this.#owner = undefined;
    owner?.ended(this);
    for (const resolve of waiters ?? []) resolve();
  }
}

/** Names every bad input by its index, as far as that stays readable. */
function summary(faults: readonly ItemFault[], count: number): string {
  const shown = faults.slice(0, 10).map(({ index, message }) => `input ${index}: ${message}`);
  const rest = faults.length > shown.length ? `; and ${faults.length - shown.length} more, see errors` : "";
  return `${faults.length} of ${count} ${count === 1 ? "input" : "inputs"} failed: ${shown.join("; ")}${rest}`;
}
