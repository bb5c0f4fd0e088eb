/**
 * Runs a demo prediction: fetches the files, then calls the author's `demo` function with a `console` that writes into
 * the logs of the prediction.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { format } from "node:util";
import { codedError } from "../base/errors.ts";
import { withConsole } from "./captured-console.ts";
import { atInput } from "./item-fault.ts";
import type { ItemFlow } from "./item-flow.ts";
import type { DemoReceiver, DemoResult, ItemPipeline } from "./item-pipeline.ts";
import { predictAll } from "./predict-all.ts";

export interface DemoOptions extends DemoReceiver {
  readonly flow: ItemFlow;
  readonly pipeline: ItemPipeline;
  readonly signal: AbortSignal;
  /** Called when the files are fetched, before the `demo` function or a hook runs. */
  readonly onBegun?: () => void;
  /** Writes a log line. @returns false when the logs are full */
  readonly write: (text: string) => boolean;
}

/** Runs a task with the normal `console`, because work shared by several demos must not write into the logs of one. */
const outside = AsyncLocalStorage.snapshot();

/** Runs a demo. @throws SconceError of a file, of a failed input, or with the message of the demo's error */
export async function runDemo(inputs: readonly unknown[], options: DemoOptions): Promise<DemoResult> {
  const { flow, pipeline, signal, take, onOutput, parts, write } = options;
  const remote = inputs.flatMap((input, index) => pipeline.remoteFilesOf(input).map((file) => ({ file, index })));
  using _files = await flow.fetches.fetch(
    remote.map(({ file }) => file),
    { owner: options, signal, convertError: (at, error) => atInput(remote[at]?.index ?? 0, codedError(error)) },
  );
  // The client gets the demo's id first, because the author's code may block the thread.
  await new Promise((resolve) => setImmediate(resolve));
  signal.throwIfAborted();
  options.onBegun?.();
  const scope = <T>(task: () => T): T => withConsole(write, task);
  let takesLogs = true;
  return await scope(() =>
    pipeline.demo(inputs, {
      take,
      onOutput,
      parts,
      predict: (given, each) => {
        const outputs = outside(() =>
          predictAll(flow, given, {
            signal,
            scope,
            take,
            onOutput: each?.output,
            parts: each?.parts,
            requested: inputs,
          }),
        );
        // Avoids an unhandled rejection: the demo may end before its code awaits these outputs.
        outputs.catch(() => {});
        return outputs;
      },
      // Lines are not formatted once the logs are full.
      log: (...values) => {
        if (takesLogs) takesLogs = write(`${format(...values)}\n`);
      },
      signal,
    }),
  );
}
