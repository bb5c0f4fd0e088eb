/** `sconce check [DIR]`: tries a model and prints faults without packaging it. */
import { resolve } from "node:path";
import { colorize } from "consola/utils";
import { messageWithLine } from "../../base/author-line.ts";
import { SconceError } from "../../base/errors.ts";
import { rounded } from "../../base/milliseconds.ts";
import { flagOff, option } from "../../base/option.ts";
import { examine } from "../build/examination.ts";
import { type Examination, newExamination } from "../build/examination-report.ts";
import { findingOf } from "../build/finding.ts";
import { modelFolder } from "../build/plain/model-folder.ts";
import { inputOption } from "../build/plain/tensor-input.ts";
import { withSource } from "../build/source-model.ts";
import { compareOption, externalOption, timeoutOption } from "../build/trial-options.ts";
import { typeFindings } from "../build/type-check.ts";
import { command } from "../command-line/command.ts";
import { formatTable } from "../command-line/table.ts";

export const check = command({
  details: `The command packages nothing. First, check tests the types of model.ts with the nearest tsconfig.json, and with typescript of the folder, else of sconce. Then check runs the example alone, again and in a batch, and compares the outputs. Like build, check tries both ends of each dynamic size, and padding with the example's values negated, scaled and at random. The report has the time of each stage and of batches of 1, 2, 4 and so on, and a proposed batchSize.

The command finds common mistakes of an export, and prints the Python fix of each. A batch may be fixed, or missing in an output. The network may be in training mode, have weights of a GPU or of another dtype, or call unknown operators. The names of tensors may be wrong. Outputs may change at random, with a buffer, or with other items of the batch. Outputs of a tuple have no names, so the command does not detect outputs that are declared in the wrong order.

The command exits with 1 if it finds a mistake. --json prints times in milliseconds. The field effect of a finding says what build does: refused (refuses the model), unsteady (refuses without --allow-random), warned (warns).`,
  example: `sconce check examples/digits
sconce check traced.pt --input x=float32[N,784]
sconce check . --json | jq '.findings[].python'`,
  options: {
    input: inputOption,
    external: externalOption,
    json: option({ description: "Print JSON", ...flagOff }),
    compare: compareOption,
    timeout: timeoutOption,
  },
  positionals: [
    { name: "dir", description: "The model's folder, or a weights file; default: this folder", required: false },
  ],
  async run({ options, positionals: [given = "."] }) {
    const examination = newExamination();
    try {
      const plain = { name: "model", aot: false, batchSize: undefined };
      using folder = await modelFolder(given, { ...plain, input: options.input });
      const { path, fixedRows, program } = folder;
      await withSource({ dir: path, externals: options.external, timeoutS: options.timeout }, (source) =>
        examine(source, examination, { isMeasured: true, isCompared: options.compare, fixedRows, program }),
      );
    } catch (error) {
      if (!(error instanceof SconceError) || error.code === "usage") throw error;
      examination.findings.push(findingOf(error));
    }
    examination.findings.push(...(await typeFindings(resolve(given))));
    console.log(options.json ? JSON.stringify(asJson(examination), null, 2) : report(examination));
    if (examination.findings.length > 0) process.exitCode = 1;
  },
});

function asJson({ findings, ...measured }: Examination) {
  const shown = findings.map(({ mistake, error, python, effect }) => ({
    mistake,
    message: messageWithLine(error),
    python,
    effect,
  }));
  return { ...measured, findings: shown };
}

function report(examination: Examination): string {
  const { stages, batches, proposedBatchSize: proposed, reference, findings } = examination;
  const parts: string[] = [];
  if (stages.length > 0) {
    const rows = stages.map(({ stage, ms }) => [stage, `${rounded(ms)} ms`]);
    parts.push(formatTable(["STAGE", "TIME"], rows));
  }
  const [alone] = batches;
  if (alone !== undefined) {
    const rows = batches.map(({ size, stackMs, forwardMs }) => [
      String(size),
      rounded(stackMs),
      rounded(forwardMs),
      rounded(forwardMs / size),
      `${rounded((alone.forwardMs * size) / alone.size / forwardMs)} ×`,
    ]);
    const { device, threads } = examination;
    const head = ["BATCH", "STACK MS", "FORWARD MS", "MS AN ITEM", "THROUGHPUT"];
    parts.push(`${formatTable(head, rows)}\nOn ${device} with ${threads} ${threads === 1 ? "thread" : "threads"}.`);
  }
  if (proposed !== undefined) {
    parts.push(`Proposed batchSize: ${proposed}, the smallest with at least 90 % of the best throughput here.`);
  }
  if (reference !== undefined) {
    const { compared, refused, explained, missing, differences } = reference;
    const refusals = refused === 0 ? "" : `; PyTorch and sconce both refuse ${refused} others`;
    const same = differences.length === 0 ? compared : `${compared - differences.length} of ${compared}`;
    const ties =
      explained === 0 ? "" : `; ${explained} of them within the difference between PyTorch's own runs, as near ties`;
    const counts = `${same} batches have the same outputs as with PyTorch${ties}${refusals}.`;
    if (compared > 0 || missing === undefined) parts.push(counts);
    if (missing !== undefined) parts.push(`Not compared with PyTorch: ${missing}.`);
  }
  const isColoured = process.stdout.isTTY && !process.env.NO_COLOR;
  const colour: typeof colorize = (name, text) => (isColoured ? colorize(name, text) : String(text));
  for (const { mistake, error, python } of findings) {
    const fix = python === undefined ? "" : `\n  ${colour("cyan", python)}`;
    parts.push(`${colour("red", `✖ ${mistake}`)}: ${messageWithLine(error)}${fix}`);
  }
  if (findings.length === 0) parts.push(colour("green", "✔ no mistakes found"));
  return parts.join("\n\n");
}
