/** The life of predictions: admission, the way of their items, their end. Knows no HTTP. */
import { AsyncLocalStorage } from "node:async_hooks";
import { format } from "node:util";
import type { Engine, Rows } from "../engine/engine.ts";
import { Ring } from "../engine/ring.ts";
import { messageOf, SconceError } from "../errors.ts";
import type { Metrics } from "../metrics.ts";
import { withConsole } from "./captured-console.ts";
import { Deadlines } from "./deadlines.ts";
import { DemoPrediction } from "./demo-prediction.ts";
import { newId } from "./ids.ts";
import type { ItemPipeline } from "./item-pipeline.ts";
import { DemoRun, type ItemRun } from "./item-run.ts";
import { Prediction } from "./prediction.ts";
import { PredictionStore, type RetentionLimits } from "./prediction-store.ts";
import type { PredictionRecord, RecordOptions } from "./record.ts";

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
  /** Most bytes of a demo prediction's logs. */
  readonly maxLogBytes: number;
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

export class PredictionService {
  readonly #engine: Engine;
  readonly #pipeline: ItemPipeline;
  readonly #limits: ServiceLimits;
  readonly #metrics: Metrics;
  readonly #store: PredictionStore;
  readonly #deadlines: Deadlines<PredictionRecord>;
  /** Those with inputs that have not been begun. */
  readonly #waiting = new Ring<ItemRun>();
  /** Most items between their begin and their batch: a few batches, so that the device never waits for one. */
  readonly #maxAhead: number;
  #preparing = 0;
  readonly #preparingOf = new Map<ItemRun, number>();
  #isPreparingNext = false;
  #unfinishedItems = 0;
  #unfinishedBytes = 0;
  /** Runs a task as if no demo had called it: what goes on from there is everyone's, and must not write into its logs. */
  readonly #outside = AsyncLocalStorage.snapshot();
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
  create(request: NewPrediction): Prediction {
    const prediction = new Prediction({
      ...this.#admit(request),
      inputs: request.inputs,
      onRows: this.#onRows,
      encode: (output) => this.#pipeline.encode(output),
    });
    this.#begin(prediction);
    this.#run(prediction);
    return prediction;
  }

  /**
   * Accepts a demo prediction, all of it or nothing.
   * @throws SconceError as `create` does
   */
  createDemo(request: NewPrediction): DemoPrediction {
    const demo = new DemoPrediction({ ...this.#admit(request), maxLogBytes: this.#limits.maxLogBytes });
    this.#begin(demo);
    this.#runDemo(demo, request.inputs).catch((error: unknown) => demo.end(codedOf(error).message));
    return demo;
  }

  get(id: string): Prediction | undefined {
    const record = this.#store.get(id);
    return record instanceof Prediction ? record : undefined;
  }

  getDemo(id: string): DemoPrediction | undefined {
    const record = this.#store.get(id);
    return record instanceof DemoPrediction ? record : undefined;
  }

  /** Ends a prediction; one that has ended stays as it is. */
  cancel(record: PredictionRecord): void {
    record.end("Canceled");
  }

  /** Takes nothing new and resolves when all that was accepted has ended. */
  drain(): Promise<void> {
    this.#isDraining = true;
    if (this.#store.active === 0) this.#drained.resolve();
    return this.#drained.promise;
  }

  /** Checks that there is room for a request, and takes it. */
  #admit({ inputs, bytes, timeoutMs = Infinity }: NewPrediction): RecordOptions {
    if (this.#isDraining) throw new SconceError("not_ready", "the server is stopping and takes no new predictions");
    const { maxQueuedItems, maxQueuedBytes } = this.#limits;
    // A body alone in the queue is always taken: the limit of one body is the server's.
    const isFull =
      this.#unfinishedItems + inputs.length > maxQueuedItems ||
      (this.#unfinishedBytes > 0 && this.#unfinishedBytes + bytes > maxQueuedBytes);
    if (isFull) {
      throw new SconceError("queue_full", `the queue is full (${this.#unfinishedItems} inputs wait); try again later`);
    }
    this.#unfinishedItems += inputs.length;
    this.#unfinishedBytes += bytes;
    return {
      id: newId(),
      count: inputs.length,
      bytes,
      deadlineMs: Date.now() + Math.min(timeoutMs, this.#limits.timeoutMs),
      onEnd: this.#onEnd,
    };
  }

  #begin(record: PredictionRecord): void {
    this.#store.add(record);
    this.#deadlines.add(record);
  }

  readonly #onEnd = (record: PredictionRecord): void => {
    if (record instanceof Prediction) this.#abandon(record);
    this.#deadlines.delete(record);
    this.#unfinishedItems -= record.count;
    this.#unfinishedBytes -= record.bytes;
    this.#store.ended(record);
    this.#metrics.predictionEnded({
      status: record.status,
      seconds: ((record.finishedAtMs ?? 0) - record.createdAtMs) / 1000,
      itemsSucceeded: record.itemsSucceeded,
      itemsFailed: record.count - record.itemsSucceeded,
    });
    if (this.#isDraining && this.#store.active === 0) this.#drained.resolve();
    this.#prepareNext();
  };

  #expire(record: PredictionRecord): void {
    const seconds = Math.round((record.deadlineMs - record.createdAtMs) / 10) / 100;
    record.end(`Timed out after ${seconds} s`);
  }

  /** Fetches the demo's files and hands over to the model's code, with everything that it writes to `console` going to the logs. */
  async #runDemo(demo: DemoPrediction, inputs: readonly unknown[]): Promise<void> {
    const { signal } = demo;
    const { maxPreparing } = this.#limits;
    for (let i = 0; i < inputs.length; i += maxPreparing) {
      await Promise.all(inputs.slice(i, i + maxPreparing).map((input) => this.#pipeline.fetchFiles(input, signal)));
    }
    if (demo.isOver) return;
    demo.started();
    const write = (text: string) => demo.write(text);
    const { outputs, demoOutputs } = await withConsole(write, () =>
      this.#pipeline.demo(inputs, {
        predict: (given) => this.#outside(() => this.#predictFor(demo, given)),
        log: (...values) => demo.write(`${format(...values)}\n`),
        signal,
      }),
    );
    demo.succeed(outputs, demoOutputs);
  }

  /** Sends inputs of a demo through the same batches as everyone's. */
  async #predictFor(demo: DemoPrediction, inputs: readonly unknown[]): Promise<unknown[]> {
    const { signal } = demo;
    const run = new DemoRun([...inputs], { signal, onRows: this.#onRows, write: (text) => demo.write(text) });
    const onAbort = () => {
      run.end(new SconceError("canceled", "the demo prediction has ended"));
      this.#abandon(run);
    };
    signal.addEventListener("abort", onAbort);
    this.#run(run);
    try {
      return await run.outputs;
    } finally {
      signal.removeEventListener("abort", onAbort);
      this.#abandon(run);
    }
  }

  #run(run: ItemRun): void {
    if (run.count > 0) this.#waiting.add(run);
    this.#prepareNext();
  }

  /** Takes the items of a run away that have not begun or wait for a batch, and gives back the places of those being prepared. */
  #abandon(run: ItemRun): void {
    this.#waiting.delete(run);
    this.#hold(run, -(this.#preparingOf.get(run) ?? 0));
    if (run.isComplete) return;
    this.#engine.cancel(run);
  }

  readonly #onRows = (run: ItemRun, index: number, rows: Rows): void => {
    try {
      const output = run.scope(() => this.#pipeline.finish(rows, run.input(index)));
      if (output instanceof Promise) {
        output
          .then((value: unknown) => run.itemSucceeded(index, value))
          .catch((error: unknown) => run.failed(index, codedOf(error)));
      } else {
        run.itemSucceeded(index, output);
      }
    } catch (error) {
      run.failed(index, codedOf(error));
    }
    this.#prepareNext();
  };

  /** Begins inputs, one of each run in turn, as far ahead of the batches as is allowed. */
  #prepareNext(): void {
    // An input that fails at once ends its prediction, which comes here again: the loop that is already running goes on with it.
    if (this.#isPreparingNext) return;
    this.#isPreparingNext = true;
    for (let run = this.#waiting.first; run !== undefined; run = this.#waiting.first) {
      const { items, bytes } = this.#engine.ready;
      if (this.#preparing + items >= this.#maxAhead || bytes >= this.#limits.maxReadyBytes) break;
      if (this.#preparing >= this.#limits.maxPreparing) break;
      const index = run.next++;
      if (run.next < run.count) this.#waiting.moveToEnd(run);
      else this.#waiting.delete(run);
      this.#prepare(run, index);
    }
    this.#isPreparingNext = false;
  }

  /** Counts inputs of a run that are being prepared. Those of one that was abandoned no longer count, whatever they wait for. */
  #hold(run: ItemRun, change: number): void {
    const held = this.#preparingOf.get(run) ?? 0;
    const now = Math.max(0, held + change);
    this.#preparing += now - held;
    if (now === 0) this.#preparingOf.delete(run);
    else this.#preparingOf.set(run, now);
  }

  #prepare(run: ItemRun, index: number): void {
    try {
      const tensors = run.scope(() => this.#pipeline.prepare(run.input(index), () => run.signal));
      if (!(tensors instanceof Promise)) {
        this.#engine.submit(run, index, tensors);
        return;
      }
      this.#hold(run, 1);
      tensors
        .then((ready) => {
          if (!run.isOver) this.#engine.submit(run, index, ready);
        })
        .catch((error: unknown) => run.failed(index, codedOf(error)))
        .finally(() => {
          this.#hold(run, -1);
          this.#prepareNext();
        });
    } catch (error) {
      run.failed(index, codedOf(error));
    }
  }
}

function codedOf(error: unknown): SconceError {
  return error instanceof SconceError ? error : new SconceError("item_failed", messageOf(error), { cause: error });
}
