/**
 * Runs inputs through the model for an author's `demo` function, the command line or a test. The inputs
 * share batches with inputs of clients. The outputs are the values that the model made, not JSON texts.
 */

import { ModelFile } from "../author/file.ts";
import { SconceError } from "../base/errors.ts";
import { ReadyInputs } from "./inputs/input-list.ts";
import { atInput } from "./item-fault.ts";
import type { ItemFlow } from "./item-flow.ts";
import { ItemList } from "./item-list.ts";
import type { PartsReceiver } from "./item-pipeline.ts";
import { listForm } from "./output-encoder.ts";

export interface PredictAllOptions {
  /** Fires to cancel the unfinished inputs. */
  readonly signal: AbortSignal;
  /** Wraps each call of the model's code for an input. */
  readonly scope?: <T>(task: () => T) => T;
  /** Charges the memory of an output. @throws SconceError if the outputs have too many bytes */
  readonly take?: (bytes: number) => void;
  /**
   * Called with each output when it is made: the value, or text for `OutputEncoder.encode`. @throws SconceError to fail
   * the input
   */
  readonly onOutput?: ((index: number, output: unknown) => void) | undefined;
  readonly parts?: PartsReceiver | undefined;
  /**
   * The inputs of the client's request. An error of such an input names its index; other inputs, which a `demo`
   * function made, have none.
   */
  readonly requested?: readonly unknown[];
}

/**
 * Runs inputs through the model, and waits for all outputs.
 * @returns an output for each input, in their order, not checked against the declared output
 * @throws SconceError of the first input that failed, `canceled` when the signal fires
 */
export async function predictAll(
  flow: ItemFlow,
  inputs: readonly unknown[],
  { signal, scope = (task) => task(), take, onOutput, parts, requested = [] }: PredictAllOptions,
): Promise<unknown[]> {
  if (inputs.length === 0) return [];
  if (signal.aborted) throw ended();
  const { promise, resolve, reject } = Promise.withResolvers<unknown[]>();
  const outputs = new Array<unknown>(inputs.length);
  let left = inputs.length;
  const list = new ItemList(new ReadyInputs([...inputs]), {
    textForm: onOutput && listForm,
    scope,
    parts,
    // The code of a demo may use the files after these inputs have ended.
    fileSignal: signal,
    succeeded: (index, output) => {
      take?.(sizeOf(output));
      onOutput?.(index, output);
      outputs[index] = output;
      left -= 1;
      if (left === 0) resolve(outputs);
    },
    failed: (index, error) => {
      const at = requested.indexOf(inputs[index]);
      reject(at < 0 ? error : atInput(at, error));
    },
  });
  const onAbort = () => reject(ended());
  signal.addEventListener("abort", onAbort);
  flow.run(list);
  try {
    return await promise;
  } finally {
    signal.removeEventListener("abort", onAbort);
    flow.end(list);
  }
}

function ended(): SconceError {
  return new SconceError("canceled", "the prediction has ended");
}

/** Rough size of an output in bytes. */
function sizeOf(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return 8;
  if (ArrayBuffer.isView(value)) return value.byteLength;
  if (value instanceof ModelFile) return value.isFilled ? value.bytes.length : 0;
  let bytes = 8;
  for (const part of Array.isArray(value) ? value : Object.values(value)) bytes += sizeOf(part);
  return bytes;
}
