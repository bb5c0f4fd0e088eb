/** Runs a model's demo: fetches its files and hands over to the model's code, with everything that it writes to `console` going to the logs. */
import { AsyncLocalStorage } from "node:async_hooks";
import { format } from "node:util";
import { codedError } from "../../base/errors.ts";
import { withConsole } from "./captured-console.ts";
import { atInput } from "./item-fault.ts";
import type { ItemFlow } from "./item-flow.ts";
import type { DemoReceiver, DemoResult, ItemPipeline } from "./item-pipeline.ts";
import { predictAll } from "./predict-all.ts";

export interface DemoOptions extends DemoReceiver {
  readonly flow: ItemFlow;
  readonly pipeline: ItemPipeline;
  /** Fires when nobody waits for the demo any more. */
  readonly signal: AbortSignal;
  /** The files are there: the model's code begins. */
  readonly onBegun?: () => void;
  /** Takes what is written; answers false once it takes no more. */
  readonly write: (text: string) => boolean;
}

/** Runs outside any demo's console capture: what goes on from there is everyone's, and must not write into its logs. */
const outside = AsyncLocalStorage.snapshot();

/** @throws SconceError of a file, of an input that failed, or with the message of what the demo threw */
export async function runDemo(inputs: readonly unknown[], options: DemoOptions): Promise<DemoResult> {
  const { flow, pipeline, signal, take, onOutput, write } = options;
  const remote = inputs.flatMap((input, index) => pipeline.remoteFilesOf(input).map((file) => ({ file, index })));
  using _files = await flow.fetch(
    remote.map(({ file }) => file),
    { owner: options, signal, told: (at, error) => atInput(remote[at]?.index ?? 0, codedError(error)) },
  );
  // The author's code may hold the thread: its client is told the id before.
  await new Promise((resolve) => setImmediate(resolve));
  signal.throwIfAborted();
  options.onBegun?.();
  const scope = <T>(task: () => T): T => withConsole(write, task);
  let takesLogs = true;
  return await scope(() =>
    pipeline.demo(inputs, {
      take,
      onOutput,
      predict: (given, toldEach) => {
        const outputs = outside(() =>
          predictAll(flow, given, { signal, scope, take, onOutput: toldEach, requested: inputs }),
        );
        // The demo may be over before its author's code awaits this: then nobody is left to tell.
        outputs.catch(() => {});
        return outputs;
      },
      // What nobody keeps is not formatted.
      log: (...values) => {
        if (takesLogs) takesLogs = write(`${format(...values)}\n`);
      },
      signal,
    }),
  );
}
