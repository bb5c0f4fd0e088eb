/** The life of predictions: admission, the way of their items, their end. Knows no HTTP. */
import type { Engine, Rows } from "../engine/engine.ts";
import { messageOf, SconceError } from "../errors.ts";
import type { Metrics } from "../metrics.ts";
import { Deadlines } from "./deadlines.ts";
import { newId } from "./ids.ts";
import type { ItemPipeline } from "./item-pipeline.ts";
import { Prediction, type PredictionOwner } from "./prediction.ts";
import { PredictionStore, type RetentionLimits } from "./prediction-store.ts";

export interface ServiceLimits {
  /** Most inputs that were accepted and have not ended, over all predictions. */
  readonly maxQueuedItems: number;
  /** Most body bytes of the predictions that have not ended. */
  readonly maxQueuedBytes: number;
  /** Most bytes of tensors that wait for a batch; what is not yet prepared waits as long as there are more. */
  readonly maxReadyBytes: number;
  /** Most inputs whose files are fetched or whose preprocessing waits for something, at the same time. */
  readonly maxPreparing: number;
  /** A prediction's time limit. */
  readonly timeoutMs: number;
  readonly retention: RetentionLimits;
}

export interface ServiceOptions {
  readonly engine: Engine;
  readonly pipeline: ItemPipeline;
  readonly limits: ServiceLimits;
  readonly metrics: Metrics;
}

export interface NewPrediction {
  /** Decoded inputs; the prediction owns the list. */
  readonly inputs: unknown[];
  /** Bytes of the request's body. */
  readonly bytes: number;
  /** A client may ask for less than the service's time limit. */
  readonly timeoutMs?: number | undefined;
}

export class PredictionService implements PredictionOwner {
  readonly #engine: Engine;
  readonly #pipeline: ItemPipeline;
  readonly #limits: ServiceLimits;
  readonly #metrics: Metrics;
  readonly #store: PredictionStore;
  readonly #deadlines: Deadlines<Prediction>;
  /** Predictions with inputs that have not been begun, in turn: the first is the next. */
  readonly #waiting = new Set<Prediction>();
  /** Most items between their begin and their batch: a few batches, so that the device never waits for one. */
  readonly #maxAhead: number;
  #preparing = 0;
  #isPreparingNext = false;
  #unfinishedItems = 0;
  #unfinishedBytes = 0;
  #isDraining = false;
  #drained = Promise.withResolvers<void>();

  constructor({ engine, pipeline, limits, metrics }: ServiceOptions) {
    this.#engine = engine;
    this.#pipeline = pipeline;
    this.#limits = limits;
    this.#metrics = metrics;
    this.#store = new PredictionStore(limits.retention);
    this.#deadlines = new Deadlines((prediction) => this.#expire(prediction));
    this.#maxAhead = Math.max(8, 3 * engine.maxBatchSize * engine.instances);
    metrics.watch(engine, () => {
      const { count, bytes } = this.#store.retained;
      return {
        active: this.#store.active,
        queuedItems: this.#unfinishedItems,
        queuedBytes: this.#unfinishedBytes,
        retained: count,
        retainedBytes: bytes,
      };
    });
  }

  /** Most inputs that one prediction could ever have here. */
  get maxInputs(): number {
    return this.#limits.maxQueuedItems;
  }

  /**
   * Accepts a prediction, all of it or nothing.
   * @throws SconceError `queue_full` when there is no room now, `not_ready` when the server is stopping
   */
  create({ inputs, bytes, timeoutMs = Infinity }: NewPrediction): Prediction {
    if (this.#isDraining) throw new SconceError("not_ready", "the server is stopping and takes no new predictions");
    const { maxQueuedItems, maxQueuedBytes } = this.#limits;
    // A body alone in the queue is always taken: the limit of one body is the server's.
    const isFull =
      this.#unfinishedItems + inputs.length > maxQueuedItems ||
      (this.#unfinishedBytes > 0 && this.#unfinishedBytes + bytes > maxQueuedBytes);
    if (isFull)
      throw new SconceError("queue_full", `the queue is full (${this.#unfinishedItems} inputs wait); try again later`);
    const deadlineMs = Date.now() + Math.min(timeoutMs, this.#limits.timeoutMs);
    const prediction = new Prediction({ id: newId(), inputs, bytes, deadlineMs, owner: this });
    this.#unfinishedItems += prediction.count;
    this.#unfinishedBytes += bytes;
    this.#store.add(prediction);
    this.#deadlines.add(prediction);
    this.#waiting.add(prediction);
    this.#prepareNext();
    return prediction;
  }

  get(id: string): Prediction | undefined {
    return this.#store.get(id);
  }

  /** Ends a prediction; one that has ended stays as it is. */
  cancel(prediction: Prediction): void {
    prediction.end("Canceled");
  }

  /** Takes nothing new and resolves when all that was accepted has ended. */
  drain(): Promise<void> {
    this.#isDraining = true;
    if (this.#store.active === 0) this.#drained.resolve();
    return this.#drained.promise;
  }

  rowsArrived(prediction: Prediction, index: number, rows: Rows): void {
    try {
      const output = this.#pipeline.finish(rows, prediction.input(index));
      if (typeof output === "string") prediction.itemSucceeded(index, output);
      else
        output.then(
          (text) => prediction.itemSucceeded(index, text),
          (error) => this.#fail(prediction, index, error),
        );
    } catch (error) {
      this.#fail(prediction, index, error);
    }
    this.#prepareNext();
  }

  ended(prediction: Prediction): void {
    this.#waiting.delete(prediction);
    this.#deadlines.delete(prediction);
    this.#engine.cancel(prediction);
    this.#unfinishedItems -= prediction.count;
    this.#unfinishedBytes -= prediction.bytes;
    this.#store.ended(prediction);
    this.#metrics.predictionEnded({
      status: prediction.status,
      seconds: ((prediction.finishedAtMs ?? 0) - prediction.createdAtMs) / 1000,
      itemsSucceeded: prediction.itemsSucceeded,
      itemsFailed: prediction.count - prediction.itemsSucceeded,
    });
    if (this.#isDraining && this.#store.active === 0) this.#drained.resolve();
    this.#prepareNext();
  }

  #expire(prediction: Prediction): void {
    const seconds = Math.round((prediction.deadlineMs - prediction.createdAtMs) / 10) / 100;
    prediction.end(`Timed out after ${seconds} s`);
  }

  /** Begins inputs, one of each prediction in turn, as far ahead of the batches as is allowed. */
  #prepareNext(): void {
    // An input that fails at once ends its prediction, which comes here again: the loop that is already running goes on with it.
    if (this.#isPreparingNext) return;
    this.#isPreparingNext = true;
    for (const prediction of this.#waiting) {
      const { items, bytes } = this.#engine.ready;
      if (this.#preparing + items >= this.#maxAhead || bytes >= this.#limits.maxReadyBytes) break;
      if (this.#preparing >= this.#limits.maxPreparing) break;
      const index = prediction.next++;
      // To the end of the line, if there is more to begin: iteration comes to it again.
      this.#waiting.delete(prediction);
      if (prediction.next < prediction.count) this.#waiting.add(prediction);
      this.#prepare(prediction, index);
    }
    this.#isPreparingNext = false;
  }

  #prepare(prediction: Prediction, index: number): void {
    try {
      const tensors = this.#pipeline.prepare(prediction.input(index), () => prediction.signal);
      if (!(tensors instanceof Promise)) {
        this.#engine.submit(prediction, index, tensors);
        return;
      }
      this.#preparing += 1;
      tensors
        .then((ready) => {
          if (prediction.outcome === undefined) this.#engine.submit(prediction, index, ready);
        })
        .catch((error: unknown) => this.#fail(prediction, index, error))
        .finally(() => {
          this.#preparing -= 1;
          this.#prepareNext();
        });
    } catch (error) {
      this.#fail(prediction, index, error);
    }
  }

  #fail(prediction: Prediction, index: number, error: unknown): void {
    prediction.failed(index, error instanceof SconceError ? error : new SconceError("item_failed", messageOf(error)));
  }
}
