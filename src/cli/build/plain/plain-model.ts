/** Writes a model folder for a weights file. `build` then handles it like any other folder. */
import { copyFile, mkdir, symlink, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import type { TensorSpecs } from "../../../author/tensor.ts";
import { messageOf, SconceError } from "../../../base/errors.ts";
import { parsedJson } from "../../../base/json.ts";
import { log } from "../../../base/log.ts";
import { WeightsFile } from "../../../engine/program/weights-file.ts";
import { usage } from "../../command-line/command.ts";
import { trainingMistake } from "../training-mode.ts";
import { describeFile } from "../weights-kind.ts";
import { compiledProgram } from "./compiled-program.ts";
import { inputsOfProgram } from "./exported-program.ts";
import { modelText } from "./model-text.ts";
import { inputsOfSource } from "./package-source.ts";
import { probeOutputs } from "./probe.ts";
import { type GivenInput, inputForm, specsOf, type TensorInput } from "./tensor-input.ts";

export interface PlainOptions {
  readonly name: string;
  /** Inputs given with `--input`, for files that do not describe their inputs. */
  readonly inputs: readonly GivenInput[];
  /** Largest batch. Default: the largest that the weights accept, up to 32. */
  readonly batchSize: number | undefined;
  /** Whether to compile an exported program with AOTInductor even if it runs uncompiled. */
  readonly isCompiled?: boolean;
  /** Whether to copy the weights to the folder. Otherwise the folder has a link. */
  readonly isKept: boolean;
}

/** Largest batch size of a model without --batch-size, even if the weights accept larger batches. */
export const MAX_BATCH_SIZE = 32;

/**
 * Path of weights that can run: the file itself, or the compiled package of an exported program. A program is compiled
 * on request, or if it cannot run uncompiled.
 * @throws SconceError `weights_invalid` for a known kind of file without a network, and for a program in training mode
 */
export async function runnableWeights(path: string, isCompiled = false, rows?: number): Promise<string> {
  const file = new WeightsFile(path);
  const program = file.programText;
  const isUnknown = program === undefined && file.fault !== undefined;
  const mistake = isUnknown ? await describeFile(path) : trainingMistake(parsedJson(program ?? "{}"));
  if (mistake !== undefined) throw new SconceError("weights_invalid", `${basename(path)}: ${mistake}`);
  if (program === undefined) return path;
  if (isCompiled) return compiledProgram(path, rows);
  try {
    file.program();
    return path;
  } catch (error) {
    log.info(messageOf(error));
    return compiledProgram(path, rows);
  }
}

export interface WrittenModel {
  readonly files: readonly string[];
  /** The only batch size that the weights or --input allow; undefined if several are allowed. */
  readonly fixedRows: number | undefined;
}

/**
 * Writes model.ts and the weights to `dir`, a new or empty folder.
 * @throws SconceError `usage` when --input is needed, `weights_invalid`
 */
export async function writePlainModel(path: string, dir: string, options: PlainOptions): Promise<WrittenModel> {
  const { fault, programText } = new WeightsFile(path);
  const weights = await runnableWeights(path, options.isCompiled, options.batchSize);
  if (fault !== undefined) throw new SconceError("weights_invalid", `${basename(path)}: ${fault}`);
  const inputs = chosenInputs(path, statedInputs(path), options.inputs);
  const file = basename(path);
  const maxRows = rowsOf(inputs, weights);
  const { outputs, device } = await outputsOf(weights, { inputs, maxRows, isProgram: programText !== undefined });
  const batchSize = options.batchSize ?? Math.min(MAX_BATCH_SIZE, maxRows);
  const text = modelText({ name: options.name, weights: file, inputs, outputs, batchSize, device });
  await mkdir(dir, { recursive: true });
  await writeFile(join(dir, "model.ts"), text, { flag: "wx" });
  await (options.isKept ? copyFile : symlink)(weights, join(dir, file));
  return { files: ["model.ts", file], fixedRows: typeof inputs[0]?.sizes[0] === "number" ? maxRows : undefined };
}

/** The inputs that an exported program or an AOTInductor package states; undefined for other files. */
export function statedInputs(path: string): readonly TensorInput[] | undefined {
  const { programText, packageSource = "", packageNames } = new WeightsFile(path);
  return programText === undefined ? inputsOfSource(packageSource, packageNames.inputs) : inputsOfProgram(programText);
}

/** The largest batch that the inputs and the weights allow; Infinity without a limit. */
export function rowsOf(inputs: readonly TensorInput[], weights: string): number {
  return Math.min(mostRows(inputs), mostRows(statedInputs(weights) ?? inputs));
}

/** Inputs and outputs of one item, by name. Runs the weights to find the outputs. */
export async function statedTensors(
  weights: string,
  { inputs, maxRows }: { readonly inputs: readonly TensorInput[]; readonly maxRows: number },
): Promise<{ readonly inputs: TensorSpecs; readonly outputs: TensorSpecs }> {
  const { outputs } = await outputsOf(weights, { inputs, maxRows, isProgram: true });
  return { inputs: specsOf(inputs), outputs };
}

interface Probed {
  readonly inputs: readonly TensorInput[];
  readonly maxRows: number;
  /** Whether the weights are an exported program, or were compiled from one. */
  readonly isProgram: boolean;
}

/** Outputs of one item, and the kind of device for which a package was compiled; undefined for other weights. */
async function outputsOf(weights: string, { inputs, maxRows, isProgram }: Probed) {
  const { packageSource: source, packageNames, device } = new WeightsFile(weights);
  const outputs = await probeOutputs({
    path: weights,
    device: device ?? "cpu",
    inputs,
    outputNames: source === undefined ? undefined : packageNames.outputs,
    maxRows,
    isFilled: isProgram || source !== undefined,
  });
  return { outputs, device };
}

/** The inputs from the file, otherwise from --input. Both at once are an error. */
function chosenInputs(
  path: string,
  found: readonly TensorInput[] | undefined,
  given: readonly GivenInput[],
): readonly TensorInput[] {
  const name = basename(path);
  if (found !== undefined && given.length > 0) {
    throw usage(`${name} states its inputs itself: leave --input out`);
  }
  const inputs = found ?? given;
  if (inputs.length === 0) {
    throw usage(
      `${name} does not say the sizes of its inputs: give each, with the batch dimension first, like ${inputForm}`,
    );
  }
  const first = inputs.map(({ sizes: [batch] }) => (typeof batch === "object" ? batch.name : batch));
  if (first.includes(undefined) || new Set(first).size > 1) {
    const shown = inputs.map(({ name }, i) => `${name}: ${first[i] ?? "no size at all"}`).join(", ");
    throw new SconceError(
      "weights_invalid",
      `the first size of each input of ${name} must be the batch, the same one for all (${shown})`,
    );
  }
  return inputs;
}

function mostRows(inputs: readonly TensorInput[]): number {
  return Math.min(...inputs.map(({ sizes: [batch] }) => (typeof batch === "object" ? batch.max : (batch ?? 1))));
}
