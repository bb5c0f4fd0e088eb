/** The way of items between a run and the engine: each input is begun in turn with those of all other runs, each row made an output. */
import type { Engine, Rows } from "../engine/engine.ts";
import { Ring } from "../engine/ring.ts";
import { codedError } from "../errors.ts";
import type { ItemPipeline } from "./item-pipeline.ts";
import type { ItemRun } from "./item-run.ts";

export interface ItemFlowLimits {
  /** Most bytes of tensors that wait for a batch; what is not yet prepared waits as long as there are more. */
  readonly maxReadyBytes: number;
  /** Most inputs whose files are fetched or whose preprocessing waits for something, at the same time. */
  readonly maxPreparing: number;
}

export class ItemFlow {
  readonly #engine: Engine;
  readonly #pipeline: ItemPipeline;
  readonly #limits: ItemFlowLimits;
  /** Those with inputs that have not been begun. */
  readonly #waiting = new Ring<ItemRun>();
  /** Most items that wait for a batch: a few batches, so that the device never waits for one. */
  readonly #maxAhead: number;
  /** Of those being prepared at the same time, the most of one run: files that hang must not hold up everybody. */
  readonly #maxPreparingOfOne: number;
  #preparing = 0;
  readonly #preparingOf = new Map<ItemRun, number>();
  #isPreparingNext = false;

  constructor({ engine, pipeline, limits }: { engine: Engine; pipeline: ItemPipeline; limits: ItemFlowLimits }) {
    this.#engine = engine;
    this.#pipeline = pipeline;
    this.#limits = limits;
    this.#maxAhead = Math.max(8, 3 * engine.maxBatchSize * engine.instances);
    this.#maxPreparingOfOne = Math.max(1, Math.ceil(limits.maxPreparing / 2));
  }

  /** Lets the inputs of a run come in turn with those of all others. */
  run(run: ItemRun): void {
    if (run.count > 0) this.#waiting.add(run);
    this.prepareNext();
  }

  /** Takes the items of a run away that have not begun or wait for a batch, and gives back the places of those being prepared. */
  abandon(run: ItemRun): void {
    this.#waiting.delete(run);
    this.#hold(run, -(this.#preparingOf.get(run) ?? 0));
    if (run.isComplete) return;
    this.#engine.cancel(run);
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
    this.prepareNext();
  };

  /** Begins inputs, one of each run in turn, as far ahead of the batches as is allowed. */
  prepareNext(): void {
    // An input that fails at once ends its prediction, which comes here again: the loop that is already running goes on with it.
    if (this.#isPreparingNext) return;
    this.#isPreparingNext = true;
    let skipped = 0;
    for (let run = this.#waiting.first; run !== undefined && skipped < this.#waiting.size; run = this.#waiting.first) {
      const { items, bytes } = this.#engine.ready;
      if (items >= this.#maxAhead || bytes >= this.#limits.maxReadyBytes) break;
      if (this.#preparing >= this.#limits.maxPreparing) break;
      if ((this.#preparingOf.get(run) ?? 0) >= this.#maxPreparingOfOne) {
        this.#waiting.moveToEnd(run);
        skipped += 1;
        continue;
      }
      skipped = 0;
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
        .catch((error: unknown) => run.failed(index, codedError(error)))
        .finally(() => {
          this.#hold(run, -1);
          this.prepareNext();
        });
    } catch (error) {
      run.failed(index, codedError(error));
    }
  }
}
