/** `sconce check [DIR]` */
import { colorize } from "consola/utils";
import { formatBytes } from "../bytes.ts";
import { command } from "../command-line/command.ts";
import { flag, option } from "../command-line/option.ts";
import { formatTable } from "../command-line/table.ts";
import { SconceError } from "../errors.ts";
import { rounded } from "../milliseconds.ts";
import { type Examination, examine, findingOf, newExamination } from "./check/examination.ts";
import { modelFolder } from "./plain/model-folder.ts";
import { inputOption } from "./plain/tensor-input.ts";
import { withSource } from "./try-out/source-model.ts";
import { timeoutOption } from "./try-out/timeout-option.ts";

export const check = command({
  name: "check",
  description: "Run a model's example through every stage, and say what is wrong with its export",
  details: `Packages nothing. Times each stage and batches of 1, 2 and the most, says how much memory they take, and how far the outputs of the example are apart when it runs again and in a batch. It names the common mistakes of an export, each with the line of Python that mends it: a fixed batch, training mode, outputs without a batch dimension, a GPU or another dtype in the weights, names, a softmax over the batch, random outputs, unknown operators. What has no names cannot be told apart: outputs of a tuple that are declared in another order.

Exits with 1 when it found something. --json prints times in milliseconds and memory in bytes.`,
  example: `sconce check examples/digits
sconce check traced.pt --input x=float32[N,784]
sconce check . --json | jq '.findings[].python'`,
  options: {
    input: inputOption,
    json: option({ description: "Print JSON", default: false, parse: flag }),
    timeout: timeoutOption,
  },
  positionals: [
    { name: "dir", description: "The model's folder, or a file of weights; default: this folder", required: false },
  ],
  async run({ options, positionals: [given = "."] }) {
    const told = newExamination();
    try {
      const plain = { name: "model", weights: undefined, compile: false, batchSize: undefined, eject: undefined };
      using folder = await modelFolder(given, { ...plain, input: options.input });
      await withSource({ dir: folder.path, timeoutS: options.timeout }, (source) => examine(source, told));
    } catch (error) {
      if (!(error instanceof SconceError) || error.code === "usage") throw error;
      told.findings.push(findingOf(error));
    }
    console.log(options.json ? JSON.stringify(told, null, 2) : report(told));
    if (told.findings.length > 0) process.exitCode = 1;
  },
});

function report({ stages, batches, differences, weightsBytes, device, threads, findings }: Examination): string {
  const parts: string[] = [];
  if (stages.length > 0) {
    parts.push(
      formatTable(
        ["STAGE", "TIME"],
        stages.map(({ stage, ms }) => [stage, `${rounded(ms)} ms`]),
      ),
    );
  }
  const [alone] = batches;
  if (alone !== undefined) {
    const rows = batches.map(({ size, stackMs, forwardMs, peakBytes }) => [
      String(size),
      rounded(stackMs),
      rounded(forwardMs),
      rounded(forwardMs / size),
      `${rounded((alone.forwardMs * size) / alone.size / forwardMs)} ×`,
      memoryText(peakBytes),
    ]);
    const head = ["BATCH", "STACK MS", "FORWARD MS", "MS AN ITEM", "THROUGHPUT", "MEMORY"];
    parts.push(
      `${formatTable(head, rows)}\nOn ${device} with ${threads} ${threads === 1 ? "thread" : "threads"}; loading the weights took ${memoryText(weightsBytes)}.`,
    );
  }
  if (differences !== undefined) {
    const { again, together, padded } = differences;
    const batched = together === undefined ? "" : `, in a batch by up to ${differenceText(together)}`;
    const filled = padded === undefined ? "" : `, beside a longer item by up to ${differenceText(padded)}`;
    parts.push(`Run again, the outputs differ by up to ${differenceText(again)}${batched}${filled}.`);
  }
  const isColoured = process.stdout.isTTY && !process.env.NO_COLOR;
  const colour: typeof colorize = (name, text) => (isColoured ? colorize(name, text) : String(text));
  for (const { mistake, message, python } of findings) {
    const fix = python === undefined ? "" : `\n  ${colour("cyan", python)}`;
    parts.push(`${colour("red", `✖ ${mistake}`)}: ${message}${fix}`);
  }
  if (findings.length === 0) parts.push(colour("green", "✔ nothing found"));
  return parts.join("\n\n");
}

function memoryText(bytes: number | undefined): string {
  return bytes === undefined ? "unknown" : formatBytes(bytes);
}

function differenceText(difference: number): string {
  return difference === Infinity ? "more than a number can say" : String(Number(difference.toPrecision(2)));
}
