/** Runs a model's example through all of its stages: times, memory, and the mistakes of its export. */
import { availableParallelism } from "node:os";
import { resolveDevices } from "../../engine/device.ts";
import { type ExportMistake, exportMistakes, mistakeIn } from "../../engine/export-mistakes.ts";
import { fixedBatchFault, forwardFault } from "../../engine/forward-fault.ts";
import { itemCheck } from "../../engine/item-check.ts";
import { batchSizeFor } from "../../engine/open-runners.ts";
import { rowParting } from "../../engine/rows.ts";
import type { Runner } from "../../engine/runner.ts";
import { exampleOrZeros, warmUp } from "../../engine/warm-up.ts";
import { codedError } from "../../errors.ts";
import { AddressGuard } from "../../fetching/address-guard.ts";
import { Fetcher } from "../../fetching/fetcher.ts";
import { messageWithLine } from "../../model/author-line.ts";
import type { Tensor } from "../../model/tensor.ts";
import { Archive } from "../../native/archive.ts";
import { batchStacker } from "../../native/binding.ts";
import { ItemPipeline } from "../../serving/item-pipeline.ts";
import { openWeights, prepareExample, runSetup } from "../../serving/set-up.ts";
import { type TriedOutput, tryOutputs, tryPostprocess } from "../../serving/trial.ts";
import { inputsOfSource } from "../plain/package-source.ts";
import { deviceHere, type SourceModel } from "../try-out/source-model.ts";
import { peakMemory } from "./peak-memory.ts";

export interface Finding {
  /** One of the common mistakes of an export, or `model` for anything else. */
  readonly mistake: string;
  readonly message: string;
  readonly python: string | undefined;
}

export interface BatchTimes {
  readonly size: number;
  readonly stackMs: number;
  /** With the stacking. */
  readonly forwardMs: number;
  readonly peakBytes: number | undefined;
}

/** Largest difference of two elements of an output: run again, in a batch, and beside a longer item; undefined where that was not run. */
interface Differences {
  readonly again: number;
  readonly together: number | undefined;
  readonly padded: number | undefined;
}

export interface Examination {
  readonly stages: { readonly stage: string; readonly ms: number }[];
  readonly batches: BatchTimes[];
  differences: Differences | undefined;
  weightsBytes: number | undefined;
  device: string | undefined;
  threads: number | undefined;
  readonly findings: Finding[];
}

export function newExamination(): Examination {
  const unknown = { differences: undefined, weightsBytes: undefined, device: undefined, threads: undefined };
  return { stages: [], batches: [], ...unknown, findings: [] };
}

/** A stage is run again for as long as this, and its shortest time is taken. */
const REPEAT_MS = 200;
const REPEATS = 20;
/** A batch that would take longer is not run: one item alone tells of a slow model. */
const MOST_BATCH_MS = 20_000;

/**
 * Goes as far as the model does; what stopped it is the last of the findings.
 * @param told is filled as the stages end
 */
export async function examine(source: SourceModel, told: Examination): Promise<void> {
  using fetcher = new Fetcher({ guard: new AddressGuard() });
  try {
    await new Stages(source, told).run(fetcher);
  } catch (error) {
    told.findings.push(findingOf(error, Object.keys(source.model.tensors.inputs)));
  }
}

/** @param inputs the names of the model's inputs */
export function findingOf(error: unknown, inputs: readonly string[] = []): Finding {
  const message = messageWithLine(codedError(error));
  return findingFor(mistakeIn(message), message, inputs);
}

function findingFor(mistake: ExportMistake | undefined, message: string, inputs: readonly string[]): Finding {
  return { mistake: mistake?.name ?? "model", message, python: mistake?.python(inputs) };
}

class Stages {
  readonly #source: SourceModel;
  readonly #told: Examination;

  constructor(source: SourceModel, told: Examination) {
    this.#source = source;
    this.#told = told;
  }

  async run(fetcher: Fetcher): Promise<void> {
    const { model, pathOf, example } = this.#source;
    const weights = Object.values(model.weights).map(pathOf);
    const devices = await resolveDevices({ operator: deviceHere(model), author: model.settings.device, weights });
    this.#told.device = devices.join(", ");
    const { result: runners, peakBytes } = await peakMemory(() =>
      this.#timed("load weights", () => openWeights(model, { pathOf, devices, threads: 1, instances: 1 })),
    );
    this.#told.weightsBytes = peakBytes;
    try {
      await this.#timed("setup", () => runSetup(model, pathOf));
      const pipeline = new ItemPipeline(model, fetcher);
      const made = () => prepareExample(model, pipeline, example);
      const prepared = example === undefined ? undefined : await this.#shortest("preprocess", made);
      const item = exampleOrZeros(model.tensors.inputs, prepared?.tensors);
      const [runner] = runners;
      if (item === undefined || runner === undefined) {
        this.#find(undefined, "sizes of the model's inputs are free and it declares no example: nothing could be run");
        return;
      }
      const results = await this.#batches(runners, runner, item);
      if (prepared === undefined || results === undefined) return;
      const again = await made();
      await this.#steadiness(runner, item, exampleOrZeros(model.tensors.inputs, again.tensors) ?? item);
      const unsteady = await tryPostprocess({ model, pipeline, examples: [await made(), again], results });
      if (unsteady !== undefined) this.#find(undefined, unsteady);
      const { input, tensors } = prepared;
      const { padded } = itemCheck(model.tensors.inputs)(tensors);
      const rows = () => rowParting(model.tensors.outputs)(structuredClone(results), 0, padded);
      const output = await this.#shortest("postprocess", async () => pipeline.finish(rows(), input));
      await this.#shortest("encode", async () => pipeline.encode(output));
    } finally {
      await Promise.all(runners.map((each) => each.dispose()));
    }
  }

  /** Which sizes run, then how fast these are with the threads that serve would decide on. @returns the outputs of one item */
  async #batches(
    runners: readonly Runner[],
    runner: Runner,
    item: readonly Tensor[],
  ): Promise<readonly Tensor[] | undefined> {
    const { settings, tensors } = this.#source.model;
    let most = settings.batchSize ?? 1;
    try {
      batchSizeFor(runners, most);
    } catch (error) {
      this.#find(exportMistakes.fixedBatch, codedError(error).message);
      most = runner.mostRows ?? 1;
    }
    for (const [file, rows] of this.#fixedRows()) {
      const message = `${file} was compiled for batches of exactly ${rows}: smaller ones are filled up, and cost as much`;
      this.#find(exportMistakes.fixedBatch, message);
    }
    const batchOf = (size: number) => Array<readonly Tensor[]>(size).fill(item);
    const works: number[] = [];
    let results: readonly Tensor[] | undefined;
    let alone: unknown;
    let itemMs = 0;
    for (const size of new Set([1, Math.min(2, most), most])) {
      if (itemMs * size > MOST_BATCH_MS) break;
      const begun = performance.now();
      try {
        const given = await (size === 1
          ? this.#timed("warm: first run", () => runner.run([item]))
          : runner.run(batchOf(size)));
        if (size === 1) results = given;
        itemMs = (performance.now() - begun) / size;
        works.push(size);
      } catch (error) {
        const worked = works.at(-1) ?? 0;
        if (worked === 0) alone ??= error;
        else {
          this.#findError(forwardFault(error, { size, worked }));
          break;
        }
      }
    }
    const [least] = works;
    if (alone !== undefined)
      this.#findError(
        least === undefined ? forwardFault(alone, { size: 1, worked: 0 }) : fixedBatchFault(alone, least),
      );
    if (results === undefined) return undefined;
    const largest = works.at(-1) ?? 1;
    const warm = await warmUp({
      runners,
      inputs: tensors.inputs,
      item: Object.fromEntries(Object.keys(tensors.inputs).flatMap((name, i) => (item[i] ? [[name, item[i]]] : []))),
      maxBatchSize: largest,
      threads: settings.threads,
      cores: availableParallelism(),
    });
    this.#told.threads = warm.threads;
    const stack = batchStacker(tensors.inputs);
    for (const size of works) {
      const batch = batchOf(size);
      const stackMs = await shortestMs(async () => stack(batch));
      const { result: forwardMs, peakBytes } = await peakMemory(() => shortestMs(() => runner.run(batch)));
      this.#told.batches.push({ size, stackMs, forwardMs, peakBytes });
    }
    return results;
  }

  /** Packages say themselves which sizes they take. */
  #fixedRows(): (readonly [file: string, rows: number])[] {
    const { model, pathOf } = this.#source;
    return Object.values(model.weights).flatMap((file) => {
      const inputs = inputsOfSource(Archive.open(pathOf(file))?.text(/\.wrapper\.cpp$/) ?? "");
      const rows = inputs?.[0]?.sizes[0];
      return typeof rows === "number" ? [[file, rows] as const] : [];
    });
  }

  async #steadiness(runner: Runner, item: readonly Tensor[], again: readonly Tensor[]): Promise<void> {
    const { tensors, settings } = this.#source.model;
    const maxBatchSize = settings.batchSize && (this.#told.batches.at(-1)?.size ?? 1);
    const tried = await tryOutputs(runner, {
      tensors,
      items: [item, again],
      maxBatchSize,
      isOnCpu: this.#told.device === "cpu",
    });
    const largest = (of: (output: TriedOutput) => number | undefined) => {
      const differences = tried.flatMap((output) => of(output) ?? []);
      return differences.length === 0 ? undefined : Math.max(...differences);
    };
    this.#told.differences = {
      again: largest((output) => output.again) ?? 0,
      together: largest((output) => output.together),
      padded: largest((output) => output.padded),
    };
    for (const { fault } of tried) if (fault !== undefined) this.#find(exportMistakes[fault.kind], fault.message);
  }

  async #timed<T>(stage: string, task: () => Promise<T>): Promise<T> {
    const begun = performance.now();
    const result = await task();
    this.#told.stages.push({ stage, ms: performance.now() - begun });
    return result;
  }

  /** The last result; the shortest time of several. */
  async #shortest<T>(stage: string, task: () => Promise<T>): Promise<T> {
    const result = await task();
    this.#told.stages.push({ stage, ms: await shortestMs(task) });
    return result;
  }

  #find(mistake: ExportMistake | undefined, message: string): void {
    this.#told.findings.push(findingFor(mistake, message, Object.keys(this.#source.model.tensors.inputs)));
  }

  #findError(error: Error): void {
    this.#find(mistakeIn(error.message), messageWithLine(error));
  }
}

async function shortestMs(task: () => Promise<unknown>): Promise<number> {
  const begun = performance.now();
  let shortest = Infinity;
  for (let i = 0; i < REPEATS && (i === 0 || performance.now() - begun < REPEAT_MS); i++) {
    const begin = performance.now();
    await task();
    shortest = Math.min(shortest, performance.now() - begin);
  }
  return shortest;
}
