/**
 * The trial of a model in `build` and `check`. The example runs through every stage; `check` measures each stage too.
 */
import { availableParallelism } from "node:os";
import type { Tensor } from "../../../author/tensor.ts";
import { codedError, hasCode, SconceError } from "../../../base/errors.ts";
import { log } from "../../../base/log.ts";
import { slowStep } from "../../../base/slow-step.ts";
import { resolveDevices } from "../../../engine/device.ts";
import { type ExportMistake, exportMistakes, mistakeIn } from "../../../engine/export-mistakes.ts";
import { fixedBatchFault, forwardFault } from "../../../engine/forward-fault.ts";
import { itemCheck } from "../../../engine/item-check.ts";
import { batchSizeFor } from "../../../engine/open-runners.ts";
import { rowParting } from "../../../engine/rows.ts";
import type { Runner } from "../../../engine/runner.ts";
import { exampleOrZeros } from "../../../engine/warm-up.ts";
import { AddressGuard } from "../../../machine/network/address-guard.ts";
import { Fetcher } from "../../../server/flow/fetcher.ts";
import { ItemPipeline } from "../../../server/flow/item-pipeline.ts";
import { openWeights, prepareExample, runSetup } from "../../../server/flow/set-up.ts";
import { type Trial, type TriedOutput, tryOutputs, tryParts, tryPostprocess } from "../../../server/flow/trial.ts";
import { exportedProgram } from "../plain/exported-program.ts";
import { statedInputs } from "../plain/plain-model.ts";
import { fixedBatchText } from "../plain/tensor-input.ts";
import { type BatchTimes, batchOf, measureBatches, proposedBatchSize } from "./batch-times.ts";
import { type ComparedReference, compareWithReference } from "./compared-reference.ts";
import { peakMemory } from "./peak-memory.ts";
import { shortestMs } from "./shortest-time.ts";
import { deviceOverride, type SourceModel } from "./source-model.ts";
import { type TriedSize, trialSizes, weightsFacts } from "./weights-facts.ts";

export interface Finding {
  /** Name of a known mistake at export; `model` for any other fault. */
  readonly mistake: string;
  readonly error: SconceError;
  readonly python: string | undefined;
  /**
   * Effect of the mistake on `build`: the model is refused, refused without --allow-random (`unsteady`), accepted with
   * a warning, or accepted because `build` does not see the mistake.
   */
  readonly effect: "refused" | "unsteady" | "warned" | "unseen";
}

/**
 * Largest difference between an output of the example and the same output in another run: alone a second time, in a
 * batch, and in a batch with a longer item. Undefined if the run was left out.
 */
interface Differences {
  readonly again: number;
  readonly together: number | undefined;
  readonly padded: number | undefined;
}

export interface Examination {
  readonly stages: { readonly stage: string; readonly ms: number }[];
  readonly batches: BatchTimes[];
  /** Runs with other free sizes than the example's. */
  readonly sizes: TriedSize[];
  /** Guards of the exported programs, as PyTorch prints them. */
  readonly guards: string[];
  /** The smallest batch size with nearly the best throughput. */
  proposedBatchSize: number | undefined;
  differences: Differences | undefined;
  /** Result of the comparison with PyTorch. */
  reference: ComparedReference | undefined;
  weightsBytes: number | undefined;
  device: string | undefined;
  threads: number | undefined;
  readonly findings: Finding[];
}

export function newExamination(): Examination {
  const unknown = {
    proposedBatchSize: undefined,
    differences: undefined,
    reference: undefined,
    weightsBytes: undefined,
    device: undefined,
    threads: undefined,
  };
  return { stages: [], batches: [], sizes: [], guards: [], ...unknown, findings: [] };
}

/** Longest batch that is run, in milliseconds, by an estimate. */
const MOST_BATCH_MS = 20_000;
/** `SIZES_MS` limits the time to try other sizes; about `SIZE_RUNS` items run for each size. */
const SIZES_MS = 5000;
const SIZE_RUNS = 10;

export interface ExamineOptions {
  /** Whether to measure stages and batches. Otherwise each runs only as often as needed to find mistakes. */
  readonly isMeasured: boolean;
  /** Batch size in --input, for weights that do not state it. */
  readonly fixedRows?: number | undefined;
  /** Whether to compare outputs with PyTorch, if there is a Python with torch. */
  readonly isCompared: boolean;
  /** Exported program of which the weights were made, if it is not in the model's folder. */
  readonly program?: string | undefined;
}

/**
 * Runs the stages until one fails. The failure becomes the last finding.
 * @param report gets results as stages finish
 * @returns the tensors of the example, if it passed every stage
 */
export async function examine(
  source: SourceModel,
  report: Examination,
  options: ExamineOptions,
): Promise<readonly Tensor[] | undefined> {
  using fetcher = new Fetcher({ guard: new AddressGuard() });
  try {
    return await new Stages(source, report, options).run(fetcher);
  } catch (error) {
    report.findings.push(findingOf(error, Object.keys(source.model.tensors.inputs)));
    return undefined;
  }
}

/** Turns an error into a finding. @param inputs names of the model's inputs */
export function findingOf(error: unknown, inputs: readonly string[] = []): Finding {
  const coded = codedError(error);
  const mistake = mistakeIn(coded.message);
  return { mistake: mistake?.name ?? "model", error: coded, python: mistake?.python(inputs), effect: "refused" };
}

class Stages {
  readonly #source: SourceModel;
  readonly #report: Examination;
  readonly #options: ExamineOptions;
  /** The largest batch size that ran. */
  #largest = 0;
  #itemMs = 0;

  constructor(source: SourceModel, report: Examination, options: ExamineOptions) {
    this.#source = source;
    this.#report = report;
    this.#options = options;
  }

  async run(fetcher: Fetcher): Promise<readonly Tensor[] | undefined> {
    const { model, pathOf, example } = this.#source;
    const weights = Object.values(model.weights).map(pathOf);
    const devices = await resolveDevices({ operator: deviceOverride(model), author: model.settings.device, weights });
    this.#report.device = devices.join(", ");
    // For measurements the search starts with one thread; otherwise all cores are used.
    const threads = this.#options.isMeasured ? 1 : availableParallelism();
    const { result: runners, peakBytes } = await peakMemory(() =>
      this.#timed("load weights", () => openWeights(model, { pathOf, devices, threads, instances: 1 })),
    );
    this.#report.weightsBytes = peakBytes;
    try {
      await this.#timed("setup", () => runSetup(model, pathOf));
      const pipeline = new ItemPipeline(model, fetcher);
      const made = () => slowStep("Preparing the example", prepareExample(model, pipeline, example));
      const prepared = example === undefined ? undefined : await this.#shortest("preprocess", made);
      const item = exampleOrZeros(model.tensors.inputs, prepared?.tensors);
      const [runner] = runners;
      if (prepared === undefined) this.#warn(undefined, `the model declares no example: ${untried(item)}`);
      if (item === undefined || runner === undefined) return undefined;
      const results = await this.#batches(runners, runner, item);
      if (results !== undefined && this.#options.isCompared) await this.#withReference(runner, item);
      if (prepared === undefined || results === undefined) return undefined;
      const again = await made();
      await this.#steadiness(runner, item, exampleOrZeros(model.tensors.inputs, again.tensors) ?? item);
      const unsteady = await tryPostprocess({ model, pipeline, examples: [await made(), again], results });
      if (unsteady !== undefined) this.#find(undefined, unsteady, "unsteady");
      if (model.predict !== undefined) await tryParts(runner, { model, pipeline, example: await made() });
      await this.#otherSizes(runner, item);
      if (this.#report.findings.length === 0) this.#report.proposedBatchSize = proposedBatchSize(this.#report.batches);
      const { input, tensors } = prepared;
      const { padded } = itemCheck(model.tensors.inputs)(tensors);
      const rows = () => rowParting(model.tensors.outputs)(structuredClone(results), 0, padded);
      const output = await this.#shortest("postprocess", async () => pipeline.finish(rows(), input));
      await this.#shortest("encode", async () => pipeline.encoder.encode(output));
      return item;
    } finally {
      await Promise.all(runners.map((each) => each.dispose()));
    }
  }

  /** Finds the batch sizes that run, and measures them. @returns the outputs of one item */
  async #batches(
    runners: readonly Runner[],
    runner: Runner,
    item: readonly Tensor[],
  ): Promise<readonly Tensor[] | undefined> {
    const { settings } = this.#source.model;
    let most = settings.batchSize ?? 1;
    try {
      batchSizeFor(runners, most);
    } catch (error) {
      this.#findError(codedError(error), exportMistakes.fixedBatch);
      most = runner.mostRows ?? 1;
    }
    this.#warnOfRows();
    const works: number[] = [];
    let results: readonly Tensor[] | undefined;
    let singleFault: unknown;
    for (const size of new Set([1, Math.min(2, most), most])) {
      if (this.#itemMs * size > MOST_BATCH_MS) break;
      const begun = performance.now();
      try {
        const running = slowStep(
          `Running ${size === 1 ? "one item" : `a batch of ${size}`}`,
          runner.run(batchOf(item, size)),
        );
        const given = await (size === 1 ? this.#timed("warm: first run", () => running) : running);
        if (size === 1) results = given;
        this.#itemMs = (performance.now() - begun) / size;
        works.push(size);
      } catch (error) {
        const worked = works.at(-1) ?? 0;
        if (worked > 0 && hasCode(error, "out_of_memory")) {
          this.#warn(
            undefined,
            `a batch of ${size} does not fit into this machine's memory: a batch of ${worked} does`,
          );
          break;
        }
        if (worked === 0) singleFault ??= error;
        else {
          this.#findError(forwardFault(error, { size, worked }));
          break;
        }
      }
    }
    const [least] = works;
    if (singleFault !== undefined)
      this.#findError(
        least === undefined ? forwardFault(singleFault, { size: 1, worked: 0 }) : fixedBatchFault(singleFault, least),
      );
    if (results === undefined) return undefined;
    this.#largest = works.at(-1) ?? 1;
    if (this.#options.isMeasured) {
      const { threads, batches } = await measureBatches(runners, { model: this.#source.model, item, sizes: works });
      this.#report.threads = threads;
      this.#report.batches.push(...batches);
    }
    return results;
  }

  /** Warns if the weights fix the batch size or fill up small batches. */
  #warnOfRows(): void {
    const { model, pathOf } = this.#source;
    const facts = weightsFacts(model, pathOf);
    for (const { file, guards, inputs, isCompiled } of facts) {
      this.#report.guards.push(...guards);
      const rows = inputs[0]?.sizes[0];
      const least = typeof rows === "object" ? rows.min : rows;
      if (isCompiled && least !== undefined && least > FREE_LEAST) {
        const count = typeof rows === "number" ? `exactly ${least}` : `at least ${least}`;
        const message = `${file} was compiled for batches of ${count}: smaller batches are filled up, and cost as much`;
        this.#warn(exportMistakes.fixedBatch, message);
      } else if (typeof rows === "number") this.#warnOfFixed(file, rows);
    }
    const { fixedRows } = this.#options;
    if (facts.length === 0 && fixedRows !== undefined)
      this.#warnOfFixed(Object.values(model.weights)[0] ?? "", fixedRows);
  }

  #warnOfFixed(file: string, rows: number): void {
    this.#warn(exportMistakes.fixedBatch, fixedBatchText(file, rows));
  }

  async #steadiness(runner: Runner, item: readonly Tensor[], again: readonly Tensor[]): Promise<void> {
    const tried = await tryOutputs(runner, this.#trialOf([item, again]));
    const largest = (of: (output: TriedOutput) => number | undefined) => {
      const differences = tried.flatMap((output) => of(output) ?? []);
      return differences.length === 0 ? undefined : Math.max(...differences);
    };
    this.#report.differences = {
      again: largest((output) => output.again) ?? 0,
      together: largest((output) => output.together),
      padded: largest((output) => output.padded),
    };
    for (const { fault } of tried) {
      if (fault !== undefined) this.#find(exportMistakes[fault.kind], fault.message, "unsteady");
    }
  }

  /** Compares the outputs of the weights with those of their exported program in PyTorch. */
  async #withReference(runner: Runner, item: readonly Tensor[]): Promise<void> {
    const { model, programOf } = this.#source;
    const [file, ...others] = Object.values(model.weights);
    if (file === undefined || others.length > 0 || model.predict !== undefined) return;
    const path = programOf(file) ?? exportedProgram(this.#options.program);
    if (path === undefined) return;
    const sizes = trialSizes(model.tensors.inputs, item, statedInputs(path) ?? []);
    const compared = await slowStep(
      "Comparing with PyTorch",
      compareWithReference(runner, { path, tensors: model.tensors, item, sizes, maxBatchSize: this.#largest }),
    );
    this.#report.reference = compared;
    if (compared.missing !== undefined && !this.#options.isMeasured)
      log.info(`The outputs are not compared with PyTorch: ${compared.missing}`);
    for (const difference of compared.differences) this.#find(undefined, difference, "refused");
  }

  /**
   * Tries sizes within the ranges that the weights leave free. A refused size is not a finding, because the program's
   * guards may exclude it.
   */
  async #otherSizes(runner: Runner, item: readonly Tensor[]): Promise<void> {
    const { model, pathOf } = this.#source;
    const [facts] = model.predict === undefined ? weightsFacts(model, pathOf) : [];
    if (facts === undefined || this.#report.findings.some(({ effect }) => effect === "unsteady")) return;
    const begun = performance.now();
    for (const { name, size, item: other } of trialSizes(model.tensors.inputs, item, facts.inputs)) {
      if (performance.now() - begun + SIZE_RUNS * this.#itemMs > SIZES_MS) return;
      const tried = await tryOutputs(runner, this.#trialOf([other, other])).catch(codedError);
      const refused = tried instanceof SconceError ? tried.message : undefined;
      this.#report.sizes.push({ name, size, refused });
      if (tried instanceof SconceError) continue;
      const fault = tried.find((output) => output.fault !== undefined)?.fault;
      if (fault === undefined) continue;
      this.#find(exportMistakes[fault.kind], `with ${name} = ${size}: ${fault.message}`, "unsteady");
      return;
    }
  }

  #trialOf(items: Trial["items"]): Trial {
    const { tensors, settings } = this.#source.model;
    const maxBatchSize = settings.batchSize === undefined ? undefined : this.#largest;
    return { tensors, items, maxBatchSize, isOnCpu: this.#report.device === "cpu" };
  }

  async #timed<T>(stage: string, task: () => Promise<T>): Promise<T> {
    const begun = performance.now();
    const result = await task();
    this.#report.stages.push({ stage, ms: performance.now() - begun });
    return result;
  }

  /** Runs a task. When measuring, repeats it and reports the shortest time. @returns the first result */
  async #shortest<T>(stage: string, task: () => Promise<T>): Promise<T> {
    const result = await task();
    if (this.#options.isMeasured) this.#report.stages.push({ stage, ms: await shortestMs(task) });
    return result;
  }

  #warn(mistake: ExportMistake | undefined, message: string): void {
    this.#find(mistake, message, "warned");
  }

  #find(mistake: ExportMistake | undefined, message: string, effect: Finding["effect"]): void {
    this.#findError(new SconceError("model_invalid", message), mistake, effect);
  }

  #findError(error: SconceError, mistake = mistakeIn(error.message), effect: Finding["effect"] = "refused"): void {
    const python = mistake?.python(Object.keys(this.#source.model.tensors.inputs));
    this.#report.findings.push({ mistake: mistake?.name ?? "model", error, python, effect });
  }
}

/** Smallest batch of a compiled package with a free batch size: tracing assumes that a free size is at least 2. */
const FREE_LEAST = 2;

function untried(item: readonly Tensor[] | undefined): string {
  return item === undefined
    ? "nothing was run, as sizes of its inputs are free"
    : "only its weights were run, with zeros";
}
