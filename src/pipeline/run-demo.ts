/**
 * Runs a demo prediction: fetches the files, then calls the author's `demo` function with a `console` that writes into
 * the logs of the prediction.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { format } from "node:util";
import { withConsole } from "../base/captured-console.ts";
import { codedError, SconceError } from "../base/errors.ts";
import { isObject } from "../base/json.ts";
import { atInput } from "./item-fault.ts";
import type { ItemFlow } from "./item-flow.ts";
import type { ItemPipeline, PartsReceiver } from "./item-pipeline.ts";
import type { Encoded } from "./output-encoder.ts";
import { type PredictAllOptions, predictAll } from "./predict-all.ts";

export interface DemoOptions {
  readonly flow: ItemFlow;
  readonly pipeline: ItemPipeline;
  readonly signal: AbortSignal;
  /** Called when the files are fetched, before the `demo` function or a hook runs. */
  readonly onStart?: () => void;
  /** Writes a log line. @returns false when the logs are full */
  readonly write: (text: string) => boolean;
  /** Charges the memory of an output. @throws SconceError if a limit is exceeded */
  readonly take: (bytes: number) => void;
  /** For a model without a `demo` function: called with each output as soon as it is made. */
  readonly onOutput?: ((index: number, text: Encoded) => void) | undefined;
  /** For a model without a `demo` function: receives the parts of outputs. */
  readonly parts?: PartsReceiver | undefined;
}

export interface DemoResult {
  readonly outputs: readonly Encoded[];
  readonly demoOutputs: readonly Encoded[];
}

/** Runs a task with the normal `console`, because work shared by several demos must not write into the logs of one. */
const outside = AsyncLocalStorage.snapshot();

/**
 * Runs a demo. Without a `demo` function, the inputs run as a prediction, and the outputs are also the demo outputs.
 * @returns outputs and demo outputs, each as a JSON text for each input
 * @throws SconceError `output_invalid`; the error of a file or of a failed input; the demo's error with its message
 */
export async function runDemo(inputs: readonly unknown[], options: DemoOptions): Promise<DemoResult> {
  const { flow, pipeline, signal, take, onOutput, parts, write } = options;
  const { encoder } = pipeline;
  const remote = inputs.flatMap((input, index) => pipeline.remoteFilesOf(input).map((file) => ({ file, index })));
  using _files = await flow.fetches.fetch(
    remote.map(({ file }) => file),
    { owner: options, signal, convertError: (at, error) => atInput(remote[at]?.index ?? 0, codedError(error)) },
  );
  // The client gets the demo's id first, because the author's code may block the thread.
  await new Promise((resolve) => setImmediate(resolve));
  signal.throwIfAborted();
  options.onStart?.();
  const scope = <T>(task: () => T): T => withConsole(write, task);
  const predict = (given: readonly unknown[], each?: Pick<PredictAllOptions, "onOutput" | "parts">) => {
    const outputs = outside(() => predictAll(flow, given, { signal, scope, take, requested: inputs, ...each }));
    // Avoids an unhandled rejection: the demo may end before its code awaits these outputs.
    outputs.catch(() => {});
    return outputs;
  };
  const taken = (text: Encoded): Encoded => {
    take(typeof text === "string" ? Buffer.byteLength(text) : text.reduce((sum, { length }) => sum + length, 0));
    return text;
  };
  if (!pipeline.hasDemo) {
    const outputs: Encoded[] = [];
    const ended = (index: number, made: unknown) => {
      const text = taken(encoder.encode(made));
      outputs[index] = text;
      onOutput?.(index, text);
    };
    await predict(inputs, { onOutput: ended, parts });
    return { outputs, demoOutputs: outputs };
  }
  // Lines are not formatted once the logs are full.
  let takesLogs = true;
  const log = (...values: readonly unknown[]) => {
    if (takesLogs) takesLogs = write(`${format(...values)}\n`);
  };
  return scope(async () => {
    const made = await pipeline.demo(inputs, { predict, log, signal });
    const [outputs, demoOutputs] = [listIn(made, "outputs", inputs.length), listIn(made, "demoOutputs", inputs.length)];
    const texts = async (kind: "output" | "demoOutput", values: readonly unknown[]) => {
      const encoded: Encoded[] = [];
      for (const value of values) encoded.push(taken(await encoder.encodeAs(kind, value)));
      return encoded;
    };
    return { outputs: await texts("output", outputs), demoOutputs: await texts("demoOutput", demoOutputs) };
  });
}

/** The outputs that a `demo` function returned. @throws SconceError `output_invalid` unless there is one for each input */
function listIn(made: unknown, name: "outputs" | "demoOutputs", count: number): readonly unknown[] {
  const list: unknown = isObject(made) ? made[name] : undefined;
  if (Array.isArray(list) && list.length === count) return list;
  const received = Array.isArray(list) ? String(list.length) : "none";
  throw new SconceError("output_invalid", `the demo must give one of ${name} per input: ${count}, not ${received}`);
}
