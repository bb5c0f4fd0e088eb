/** The life of predictions: admission, the way of their items, their end. Knows no HTTP. */
import { AsyncLocalStorage } from "node:async_hooks";
import { format } from "node:util";
import type { Engine } from "../engine/engine.ts";
import { codedError, SconceError } from "../errors.ts";
import { allOf, type InputList } from "../inputs/input-list.ts";
import type { Metrics } from "../metrics.ts";
import { withConsole } from "./captured-console.ts";
import { Deadlines } from "./deadlines.ts";
import { DemoPrediction } from "./demo-prediction.ts";
import { DemoRun } from "./demo-run.ts";
import { newId } from "./ids.ts";
import { atInput } from "./item-fault.ts";
import { ItemFlow, type ItemFlowLimits } from "./item-flow.ts";
import type { ItemPipeline } from "./item-pipeline.ts";
import { Prediction } from "./prediction.ts";
import { PredictionStore, type RetentionLimits } from "./prediction-store.ts";
import type { PredictionRecord, RecordOptions } from "./record.ts";

export interface ServiceLimits extends ItemFlowLimits {
  /** Most inputs that were accepted and have not ended, over all predictions. */
  readonly maxQueuedItems: number;
  /** Most body bytes of the predictions that have not ended. */
  readonly maxQueuedBytes: number;
  /** A prediction's time limit. */
  readonly timeoutMs: number;
  /** Most bytes of the outputs of one prediction. */
  readonly maxResultBytes: number;
  /** Most bytes of a demo prediction's logs. */
  readonly maxLogBytes: number;
  readonly retention: RetentionLimits;
}

export interface ServiceOptions {
  readonly engine: Engine;
  readonly pipeline: ItemPipeline;
  readonly limits: ServiceLimits;
  readonly metrics: Metrics;
  /** Told of what fails, for the operator's log: the client is told by the prediction. */
  readonly onFault?: (where: string, error: SconceError) => void;
}

export interface NewPrediction {
  /** The prediction owns the list. */
  readonly inputs: InputList;
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
  readonly #onFault: ServiceOptions["onFault"];
  readonly #store: PredictionStore;
  readonly #deadlines: Deadlines<PredictionRecord>;
  readonly #flow: ItemFlow;
  #unfinishedItems = 0;
  #unfinishedBytes = 0;
  /** Runs a task as if no demo had called it: what goes on from there is everyone's, and must not write into its logs. */
  readonly #outside = AsyncLocalStorage.snapshot();
  #isDraining = false;
  #drained = Promise.withResolvers<void>();

  constructor({ engine, pipeline, limits, metrics, onFault }: ServiceOptions) {
    this.#engine = engine;
    this.#flow = new ItemFlow({ engine, pipeline, limits });
    this.#pipeline = pipeline;
    this.#limits = limits;
    this.#metrics = metrics;
    this.#onFault = onFault;
    this.#store = new PredictionStore(limits.retention);
    this.#deadlines = new Deadlines((prediction) => this.#expire(prediction));
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

  /**
   * Accepts a prediction, all of it or nothing.
   * @throws SconceError `queue_full` when there is no room now, `not_ready` when the server is stopping
   */
  create(request: NewPrediction): Prediction {
    const prediction = new Prediction({
      ...this.#admit(request),
      inputs: request.inputs,
      onRows: this.#flow.onRows,
      onFault: (given, index, error) => this.#onFault?.(`prediction ${given.id}, input ${index}`, error),
      encode: (output) => this.#pipeline.encode(output),
      maxResultBytes: this.#limits.maxResultBytes,
    });
    this.#begin(prediction);
    this.#flow.run(prediction);
    return prediction;
  }

  /**
   * Accepts a demo prediction, all of it or nothing.
   * @throws SconceError as `create` does
   */
  createDemo(request: NewPrediction): DemoPrediction {
    const demo = new DemoPrediction({ ...this.#admit(request), maxLogBytes: this.#limits.maxLogBytes });
    this.#begin(demo);
    this.#runDemo(demo, allOf(request.inputs)).catch((error: unknown) => {
      const coded = codedError(error);
      if (!demo.isOver) this.#onFault?.(`demo prediction ${demo.id}`, coded);
      demo.end(coded.message);
    });
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
    this.#engine.hurry();
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
      throw new SconceError(
        "queue_full",
        `the queue is full (${this.#unfinishedItems} inputs of predictions that have not ended); try again later`,
      );
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
    if (record instanceof Prediction) this.#flow.abandon(record);
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
  };

  #expire(record: PredictionRecord): void {
    const seconds = Math.round((record.deadlineMs - record.createdAtMs) / 10) / 100;
    record.end(`Timed out after ${seconds} s`);
  }

  /** Fetches the demo's files and hands over to the model's code, with everything that it writes to `console` going to the logs. */
  async #runDemo(demo: DemoPrediction, inputs: readonly unknown[]): Promise<void> {
    const { signal } = demo;
    const fetching = { signal: () => signal, gate: this.#flow.gate };
    await Promise.all(
      inputs.map((input, index) =>
        this.#pipeline.fetchFiles(input, fetching).catch((error: unknown) => {
          throw atInput(index, codedError(error));
        }),
      ),
    );
    if (demo.isOver) return;
    demo.started();
    const write = (text: string) => demo.write(text);
    const { outputs, demoOutputs } = await withConsole(write, () =>
      this.#pipeline.demo(inputs, {
        predict: (given) => {
          const outputs = this.#outside(() => this.#predictFor(demo, given, inputs));
          // The demo may be over before its author's code awaits this: then nobody is left to tell.
          outputs.catch(() => {});
          return outputs;
        },
        log: (...values) => {
          if (demo.takesLogs) write(`${format(...values)}\n`);
        },
        signal,
      }),
    );
    demo.succeed(outputs, demoOutputs);
  }

  /** Sends inputs of a demo through the same batches as everyone's. */
  async #predictFor(
    demo: DemoPrediction,
    inputs: readonly unknown[],
    requested: readonly unknown[],
  ): Promise<unknown[]> {
    const { signal } = demo;
    if (demo.isOver) throw new SconceError("canceled", "the demo prediction has ended");
    const write = (text: string) => demo.write(text);
    const run = new DemoRun([...inputs], { requested, signal, onRows: this.#flow.onRows, write });
    const onAbort = () => {
      run.end(new SconceError("canceled", "the demo prediction has ended"));
      this.#flow.abandon(run);
    };
    signal.addEventListener("abort", onAbort);
    this.#flow.run(run);
    try {
      return await run.outputs;
    } finally {
      signal.removeEventListener("abort", onAbort);
      this.#flow.abandon(run);
    }
  }
}
