/**
 * The trial of a model in `build` and `check`. The example runs through every stage; `check` measures each stage too.
 */
import { availableParallelism } from "node:os";
import type { Tensor, TensorSpecs } from "../../author/tensor.ts";
import { wireSchema } from "../../author/wire-schema.ts";
import { codedError, hasCode, messageOf, SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { slowStep } from "../../base/slow-step.ts";
import { itemCheck } from "../../engine/item-check.ts";
import { batchSizeFor } from "../../engine/open-runners.ts";
import { rowParting } from "../../engine/rows.ts";
import type { Runner } from "../../engine/runner.ts";
import { exampleOrZeros } from "../../engine/warm-up.ts";
import { AddressGuard } from "../../machine/network/address-guard.ts";
import { Fetcher } from "../../pipeline/fetcher.ts";
import type { ExampleRun } from "../../pipeline/golden.ts";
import { ItemPipeline } from "../../pipeline/item-pipeline.ts";
import { noSignal, openWeights, prepareExample, runSetup } from "../../pipeline/set-up.ts";
import { batchOf, measureBatches, proposedBatchSize } from "./batch-times.ts";
import { ComparedReference, compareWithReference, type NamedCall } from "./compared-reference.ts";
import type { Examination } from "./examination-report.ts";
import { exportMistakes } from "./export-mistakes.ts";
import { Findings, findingOf } from "./finding.ts";
import { fixedBatchFault, forwardFault, loadFault } from "./forward-fault.ts";
import { exportedProgram } from "./plain/exported-program.ts";
import { statedInputs } from "./plain/plain-model.ts";
import { recording } from "./recorded-calls.ts";
import { shortestMs } from "./shortest-time.ts";
import { type SourceModel, trialDevices } from "./source-model.ts";
import { StatedRows } from "./stated-rows.ts";
import { type Trial, tryOutputs, tryParts, tryPostprocess } from "./trial.ts";
import { allowsAnyNumber } from "./trial-items.ts";
import { leastRows, trialSizes, weightsFacts } from "./weights-facts.ts";

/** A batch that would take longer than these milliseconds is not run. */
const MOST_BATCH_MS = 20_000;
/** Other sizes of the inputs are tried for at most `SIZES_MS` milliseconds. Each size runs about `SIZE_RUNS` items. */
const SIZES_MS = 5000;
const SIZE_RUNS = 10;

export interface ExamineOptions {
  /** Whether to measure stages and batches. Otherwise each runs only as often as needed to find mistakes. */
  readonly isMeasured: boolean;
  /** The only batch size that the weights file or --input allows; undefined for a folder, or if several are allowed. */
  readonly fixedRows?: number | undefined;
  /** Whether to compare outputs with PyTorch, if there is a Python with torch. */
  readonly isCompared: boolean;
  /** The weights file that the command line names, perhaps an exported program; undefined for a folder. */
  readonly program?: string | undefined;
}

/**
 * Runs the stages until one fails. The failure becomes the last finding.
 * @param report gets results as stages finish
 * @returns the tensors of the example and its outputs, if it passed every stage
 */
export async function examine(
  source: SourceModel,
  report: Examination,
  options: ExamineOptions,
): Promise<ExampleRun | undefined> {
  using fetcher = new Fetcher({ guard: new AddressGuard() });
  try {
    return await new Stages(source, report, options).run(fetcher);
  } catch (error) {
    report.findings.push(findingOf(error, inputsOf(source)));
    return undefined;
  }
}

class Stages {
  readonly #source: SourceModel;
  readonly #report: Examination;
  readonly #options: ExamineOptions;
  readonly #findings: Findings;
  readonly #rows: StatedRows;
  /** The batch sizes that ran, from the smallest. */
  readonly #works: number[] = [];
  /** Calls of the model's own code, by weights. */
  readonly #calls = new Map<string, NamedCall[]>();
  readonly #isFree: boolean;
  #itemMs = 0;

  constructor(source: SourceModel, report: Examination, options: ExamineOptions) {
    this.#source = source;
    this.#report = report;
    this.#options = options;
    this.#isFree = allowsAnyNumber(wireSchema(source.model.input, "input"));
    this.#findings = new Findings(report.findings, inputsOf(source));
    this.#rows = new StatedRows(source, this.#findings, options.fixedRows);
  }

  async run(fetcher: Fetcher): Promise<ExampleRun | undefined> {
    const { model, pathOf, example } = this.#source;
    this.#rows.warn();
    const predict = this.#options.isCompared && model.predict ? recording(model.predict, this.#calls) : model.predict;
    const devices = await trialDevices(this.#source);
    this.#report.device = devices.join(", ");
    // The later search for the fastest number of threads starts with one. Without the search, all cores are used.
    const threads = this.#options.isMeasured ? 1 : availableParallelism();
    const runners = await this.#timed("load weights", () =>
      openWeights({ ...model, predict }, { pathOf, devices, threads, instances: 1 }),
    ).catch((error: unknown) => {
      throw loadFault(error);
    });
    try {
      await this.#timed("setup", () => runSetup(model, pathOf));
      const pipeline = new ItemPipeline(model, fetcher);
      const made = () => slowStep("Preparing the example", prepareExample(model, pipeline, example));
      const prepared = example === undefined ? undefined : await this.#shortest("preprocess", made);
      const item = exampleOrZeros(model.tensors.inputs, prepared?.tensors);
      const [runner] = runners;
      if (prepared === undefined) this.#findings.warn(undefined, `the model declares no example: ${untried(item)}`);
      if (item === undefined || runner === undefined) return undefined;
      const results = await this.#batches(runners, runner, item);
      if (results === undefined) return undefined;
      const again = prepared && (await made());
      if (again !== undefined)
        await this.#steadiness(runner, item, exampleOrZeros(model.tensors.inputs, again.tensors) ?? item);
      if (this.#options.isCompared) await this.#withReference(runner, item);
      // Follows the comparisons, because many runs could change a buffer of the model and hide differences.
      if (this.#options.isMeasured) await this.#measure(runners, item);
      if (prepared === undefined || again === undefined) return undefined;
      const unsteady = await tryPostprocess({ model, pipeline, examples: [await made(), again], results });
      if (unsteady !== undefined) this.#findings.add(undefined, unsteady, "unsteady");
      if (model.predict !== undefined) await tryParts(runner, { model, pipeline, example: await made() });
      await this.#otherSizes(runner, item);
      if (this.#report.findings.length === 0) this.#report.proposedBatchSize = proposedBatchSize(this.#report.batches);
      const { input, tensors } = prepared;
      const { padded } = itemCheck(model.tensors.inputs)(tensors);
      const rows = () => rowParting(model.tensors.outputs)(structuredClone(results), 0, padded);
      const output = await this.#shortest("postprocess", async () =>
        pipeline.finish(rows(), { input, signal: noSignal }),
      );
      await this.#shortest("encode", async () => pipeline.encoder.encode(output));
      return { inputs: item, outputs: results };
    } finally {
      await Promise.all(runners.map((each) => each.dispose()));
    }
  }

  /** Finds the batch sizes that run. @returns the outputs of one item; undefined if one item cannot run */
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
      const isKnown = this.#rows.refuse((rows) => `, or set the batch size to ${rows} in place of ${most}`);
      if (!isKnown) this.#findings.addError(codedError(error), exportMistakes.fixedBatch);
      most = runner.mostRows ?? 1;
    }
    const works = this.#works;
    let results: readonly Tensor[] | undefined;
    let singleFault: unknown;
    for (const size of new Set([1, Math.min(2, most), most])) {
      if (this.#itemMs * size > MOST_BATCH_MS) break;
      const started = performance.now();
      try {
        const running = slowStep(
          `Running ${size === 1 ? "one item" : `a batch of ${size}`}`,
          runner.run(batchOf(item, size)),
        );
        const given = await (size === 1 ? this.#timed("warm: first run", () => running) : running);
        if (size === 1) results = given;
        this.#itemMs = (performance.now() - started) / size;
        works.push(size);
      } catch (error) {
        const worked = works.at(-1) ?? 0;
        if (worked > 0 && hasCode(error, "out_of_memory")) {
          this.#findings.warn(
            undefined,
            `a batch of ${size} does not fit into this machine's memory: a batch of ${worked} does`,
          );
          break;
        }
        if (worked === 0) singleFault ??= error;
        else {
          this.#findings.addError(forwardFault(error, { size, worked }));
          break;
        }
      }
    }
    const [least] = works;
    const isUnfilled = /dimension 0 of the tensor \S+ must be \d+/.test(messageOf(singleFault));
    if (isUnfilled && this.#rows.refuse((rows) => `; a single item can't be filled up to a batch of ${rows}`))
      return undefined;
    if (singleFault !== undefined)
      this.#findings.addError(
        least === undefined ? forwardFault(singleFault, { size: 1, worked: 0 }) : fixedBatchFault(singleFault, least),
      );
    return results;
  }

  async #measure(runners: readonly Runner[], item: readonly Tensor[]): Promise<void> {
    const sizes = this.#works;
    const { threads, batches } = await measureBatches(runners, { model: this.#source.model, item, sizes });
    this.#report.threads = threads;
    this.#report.batches.push(...batches);
  }

  async #steadiness(runner: Runner, item: readonly Tensor[], again: readonly Tensor[]): Promise<void> {
    for (const { kind, message } of await tryOutputs(runner, this.#trialOf([item, again])))
      this.#findings.add(exportMistakes[kind], message, "unsteady");
  }

  /** Compares the outputs of the weights with the outputs of the exported program in PyTorch. */
  async #withReference(runner: Runner, item: readonly Tensor[]): Promise<void> {
    const { model } = this.#source;
    if (model.predict !== undefined) return this.#withCalls();
    const path = this.#programOf(Object.values(model.weights)[0] ?? "");
    if (path === undefined) return;
    const inputs = statedInputs(path) ?? [];
    const sizes = trialSizes(model.tensors.inputs, item, inputs);
    if (this.#findings.has([exportMistakes.random]))
      return this.#settle(new ComparedReference("the outputs change from run to run"));
    const batches = { maxBatchSize: this.#works.at(-1) ?? 1, leastRows: leastRows(inputs), isFree: this.#isFree };
    const running = compareWithReference(runner, { path, tensors: model.tensors, item, sizes, ...batches });
    this.#settle(await slowStep("Comparing with PyTorch", running));
  }

  /** Compares the calls of `predict`, or of `begin` and `step`, with PyTorch: for each weights file the first calls. */
  async #withCalls(): Promise<void> {
    const compared = new ComparedReference();
    for (const [name, file] of Object.entries(this.#source.model.weights)) {
      const [path, calls] = [this.#programOf(file), this.#calls.get(name)];
      if (path === undefined)
        compared.missing ??= `only exported programs (torch.export.save) are compared, and ${file} is none`;
      else if (calls === undefined)
        compared.missing ??= `the example makes no call of forward of ${file} in which all arguments and results are tensors`;
      else await slowStep("Comparing with PyTorch", compared.add(path, calls));
    }
    this.#settle(compared);
  }

  #settle(compared: ComparedReference): void {
    this.#report.reference = compared;
    if (compared.missing !== undefined && !this.#options.isMeasured)
      log.info(`The outputs are not compared with PyTorch: ${compared.missing}`);
    const [first, ...others] = compared.differences;
    if (first === undefined) return;
    const more = others.length === 0 ? "" : `; ${others.length} other batches differ, too`;
    const fix = `export the network again from the same weights; if PyTorch itself gives these outputs on another machine, report the program, or package it with --no-compare`;
    this.#findings.add(undefined, `${first}${more}: ${fix}`, "refused");
  }

  /** Path of the exported program of a weights file; undefined for other files. */
  #programOf(file: string): string | undefined {
    return this.#source.programOf(file) ?? exportedProgram(this.#options.program);
  }

  /**
   * Tries sizes within the ranges that the weights leave free. A refused size is not a finding, because the program's
   * guards may exclude it.
   */
  async #otherSizes(runner: Runner, item: readonly Tensor[]): Promise<void> {
    const { model, pathOf } = this.#source;
    const [facts] = model.predict === undefined ? weightsFacts(model, pathOf) : [];
    if (facts === undefined || this.#report.findings.some(({ effect }) => effect === "unsteady")) return;
    const started = performance.now();
    for (const { name, size, item: other } of trialSizes(model.tensors.inputs, item, facts.inputs)) {
      if (performance.now() - started + SIZE_RUNS * this.#itemMs > SIZES_MS) return;
      const tried = await tryOutputs(runner, this.#trialOf([other, other])).catch(codedError);
      if (tried instanceof SconceError) continue;
      const [fault] = tried;
      if (fault === undefined) continue;
      this.#findings.add(exportMistakes[fault.kind], `with ${name} = ${size}: ${fault.message}`, "unsteady");
      return;
    }
  }

  #trialOf(items: Trial["items"]): Trial {
    const { tensors, settings } = this.#source.model;
    const maxBatchSize = settings.batchSize === undefined ? undefined : (this.#works.at(-1) ?? 1);
    const isOnCpu = this.#report.device === "cpu";
    return { tensors, items, maxBatchSize, isOnCpu, isFree: this.#isFree };
  }

  async #timed<T>(stage: string, task: () => Promise<T>): Promise<T> {
    const started = performance.now();
    const result = await task();
    this.#report.stages.push({ stage, ms: performance.now() - started });
    return result;
  }

  /** Runs a task. When measuring, repeats it and reports the shortest time. @returns the first result */
  async #shortest<T>(stage: string, task: () => Promise<T>): Promise<T> {
    const result = await task();
    if (this.#options.isMeasured) this.#report.stages.push({ stage, ms: await shortestMs(task) });
    return result;
  }
}

/** The program's inputs; none for a model whose own code calls its programs with other tensors. */
function inputsOf({ model: { predict, tensors } }: SourceModel): TensorSpecs {
  return predict === undefined ? tensors.inputs : {};
}

function untried(item: readonly Tensor[] | undefined): string {
  return item === undefined
    ? "nothing was run, as sizes of its inputs are free"
    : "only its weights were run, with zeros";
}
