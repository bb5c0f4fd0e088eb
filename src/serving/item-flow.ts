/** The way of items between a run and the engine: each input is begun in turn with those of all other runs, each row made an output. */
import type { Engine, Rows } from "../engine/engine.ts";
import { Ring } from "../engine/ring.ts";
import { codedError } from "../errors.ts";
import { type Gate, LimitedGate } from "./gate.ts";
import type { ItemPipeline, Tensors } from "./item-pipeline.ts";
import type { ItemRun } from "./item-run.ts";

export interface ItemFlowLimits {
  /** Most bytes, of tensors and of the files they came from, that wait for a batch; other inputs wait as long as there are more. */
  readonly maxReadyBytes: number;
  /** Most files that are fetched at the same time. */
  readonly maxFetches: number;
}

/**
 * Inputs are begun no longer than this, together, without anybody else having their turn: the model's code may take its time with each,
 * and a small network is done with one batch while the next is prepared, so that the event loop would not turn before all are done.
 */
const MAX_HOLD_MS = 2;
/** Inputs of one run that are fetched or preprocessed at the same time: those that hang must not hold up everybody. */
const MAX_PREPARING_OF_ONE = 32;

export class ItemFlow {
  readonly #engine: Engine;
  readonly #pipeline: ItemPipeline;
  readonly #limits: ItemFlowLimits;
  /** Those with inputs that have not been begun. */
  readonly #waiting = new Ring<ItemRun>();
  /** Most items that wait for a batch: a few batches, so that the device never waits for one. */
  readonly #maxAhead: number;
  readonly #preparingOf = new Map<ItemRun, number>();
  readonly #gate: LimitedGate;
  readonly #preparing: LimitedGate;
  /** Bytes that an item with files is expected to have once it is ready, by those before it; undefined before the first one. */
  #expectedBytes: number | undefined;
  #isPreparingNext = false;
  /** Of the time that inputs may be begun for before others have their turn. */
  #heldMs = 0;
  #willGoOn = false;

  constructor({ engine, pipeline, limits }: { engine: Engine; pipeline: ItemPipeline; limits: ItemFlowLimits }) {
    this.#engine = engine;
    this.#pipeline = pipeline;
    this.#limits = limits;
    this.#maxAhead = Math.max(8, 3 * engine.maxBatchSize * engine.instances);
    this.#gate = new LimitedGate({ maxRunning: limits.maxFetches, hasRoom: () => this.#hasRoom() });
    this.#preparing = new LimitedGate({ maxRunning: Infinity, hasRoom: () => this.#hasRoomForOneMore() });
    engine.onDispatch = () => this.prepareNext();
  }

  /** Limits fetching for all, whoever it is for. */
  get gate(): Gate {
    return this.#gate;
  }

  /** Lets the inputs of a run come in turn with those of all others. */
  run(run: ItemRun): void {
    if (run.count > 0) this.#waiting.add(run);
    this.prepareNext();
  }

  /** Takes the items of a run away that have not begun or wait for a batch. */
  abandon(run: ItemRun): void {
    this.#waiting.delete(run);
    this.#preparingOf.delete(run);
    if (!run.isComplete) this.#engine.cancel(run);
    this.prepareNext();
  }

  /** To be told of the rows of a run's items. */
  readonly onRows = (run: ItemRun, index: number, rows: Rows): void => {
    try {
      const output = run.scope(() => this.#pipeline.finish(rows, run.input(index)));
      if (output instanceof Promise) {
        output
          .then((value: unknown) => run.itemSucceeded(index, value))
          .catch((error: unknown) => run.failed(index, codedError(error)));
      } else {
        run.itemSucceeded(index, output);
      }
    } catch (error) {
      run.failed(index, codedError(error));
    }
  };

  /** Begins inputs, one of each run in turn, as far ahead of the batches as is allowed. */
  prepareNext(): void {
    // An input that fails at once ends its prediction, which comes here again: the loop that is already running goes on with it.
    if (this.#isPreparingNext) return;
    this.#isPreparingNext = true;
    try {
      this.#gate.open();
      this.#preparing.open();
      if (this.#waiting.size === 0 || this.#willGoOn) return;
      let begin = performance.now();
      let skipped = 0;
      for (let run = this.#waiting.first; run !== undefined && this.#hasRoom(); run = this.#waiting.first) {
        if ((this.#preparingOf.get(run) ?? 0) >= MAX_PREPARING_OF_ONE) {
          this.#waiting.moveToEnd(run);
          if (++skipped >= this.#waiting.size) break;
          continue;
        }
        skipped = 0;
        const index = run.next++;
        if (run.next < run.count) this.#waiting.moveToEnd(run);
        else this.#waiting.delete(run);
        this.#prepare(run, index);
        const now = performance.now();
        this.#heldMs += now - begin;
        begin = now;
        if (this.#heldMs > MAX_HOLD_MS) {
          this.#goOnLater();
          return;
        }
      }
    } finally {
      this.#isPreparingNext = false;
    }
  }

  /** After whatever else is at hand. */
  #goOnLater(): void {
    this.#willGoOn = true;
    setImmediate(() => {
      this.#willGoOn = false;
      this.#heldMs = 0;
      this.prepareNext();
    });
  }

  #hasRoom(): boolean {
    const { items, bytes } = this.#engine.ready;
    return items < this.#maxAhead && bytes < this.#limits.maxReadyBytes;
  }

  /** Beside what is ready and what is being made ready; one alone is always let in. */
  #hasRoomForOneMore(): boolean {
    const { items, bytes } = this.#engine.ready;
    const { running } = this.#preparing;
    if (items + running === 0) return true;
    if (this.#expectedBytes === undefined) return running < this.#maxAhead;
    return bytes + running * this.#expectedBytes < this.#limits.maxReadyBytes;
  }

  #prepare(run: ItemRun, index: number): void {
    try {
      const input = run.input(index);
      const fetching = { signal: () => run.signal, gate: this.#gate, preparing: this.#preparing };
      const tensors = run.scope(() => this.#pipeline.prepare(input, fetching));
      if (!(tensors instanceof Promise)) {
        this.#engine.submit(run, index, tensors);
        return;
      }
      this.#preparingOf.set(run, (this.#preparingOf.get(run) ?? 0) + 1);
      tensors
        .then((ready) => {
          const fileBytes = this.#fileBytesOf(input);
          if (run.isOver) return;
          this.#engine.submit(run, index, ready, fileBytes);
          if (fileBytes > 0) this.#expect(fileBytes + tensorBytesOf(ready));
        })
        .catch((error: unknown) => run.failed(index, codedError(error)))
        .finally(() => {
          this.#ended(run);
          this.prepareNext();
        });
    } catch (error) {
      run.failed(index, codedError(error));
    }
  }

  /** One input of the run is no longer being prepared; of a run that was abandoned none counts any more. */
  #ended(run: ItemRun): void {
    const held = this.#preparingOf.get(run);
    if (held === undefined) return;
    if (held === 1) this.#preparingOf.delete(run);
    else this.#preparingOf.set(run, held - 1);
  }

  /** The largest of late counts, so that few large items among many small ones are not underrated for long. */
  #expect(bytes: number): void {
    this.#expectedBytes = Math.max(bytes, 0.9 * (this.#expectedBytes ?? 0));
  }

  #fileBytesOf(input: unknown): number {
    return this.#pipeline.filesOf(input).reduce((sum, file) => sum + (file.isFilled ? file.bytes.length : 0), 0);
  }
}

function tensorBytesOf(tensors: Tensors): number {
  return Object.values(tensors).reduce((sum, { data }) => sum + (data?.byteLength ?? 0), 0);
}
