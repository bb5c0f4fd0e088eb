/** Runs a model in this process, for the command line and for the tests of authors. */
import type { ModelFacts, OpenedModel } from "../author/define.ts";
import { type ErrorCode, SconceError } from "../base/errors.ts";
import { openLocalEngine } from "../engine/remote/local-engine.ts";
import type { Runner } from "../engine/runner.ts";
import { AddressGuard } from "../machine/network/address-guard.ts";
import { Fetcher } from "./fetcher.ts";
import { ItemFlow } from "./item-flow.ts";
import type { ListItem } from "./item-list.ts";
import { ItemPipeline, type PartsReceiver } from "./item-pipeline.ts";
import { wholeText } from "./output-encoder.ts";
import { predictAll } from "./predict-all.ts";
import { runDemo } from "./run-demo.ts";
import { faultsOf, noSignal, type SetUpOptions, tearDown, warmModel } from "./set-up.ts";

/** Settings without a limit of an operator. The warm-up needs no example, because real inputs run at once. */
const noSettings: SetUpOptions["settings"] = {
  batchSize: undefined,
  maxQueueDelayMs: undefined,
  latencyTargetMs: Infinity,
  device: undefined,
  instances: undefined,
  threads: undefined,
  maxInputs: undefined,
};

export class LocalModel implements AsyncDisposable {
  readonly pipeline: ItemPipeline;
  readonly runners: readonly Runner[];
  readonly #flow: ItemFlow;
  readonly #resources: AsyncDisposableStack;

  private constructor(flow: ItemFlow, pipeline: ItemPipeline, runners: readonly Runner[], owned: AsyncDisposableStack) {
    this.#flow = flow;
    this.pipeline = pipeline;
    this.runners = runners;
    this.#resources = owned;
  }

  /**
   * Loads the weights, and runs the model's `setup`.
   * @throws SconceError when the model's code or weights contradict the declaration
   */
  static async open(
    model: OpenedModel,
    { pathOf, settings }: Pick<SetUpOptions, "pathOf"> & { readonly settings: Partial<SetUpOptions["settings"]> },
  ): Promise<LocalModel> {
    await using opened = new AsyncDisposableStack();
    // Private addresses are allowed, because the user could fetch them without sconce too.
    const guard = new AddressGuard({ allowPrivate: true });
    const fetcher = opened.use(new Fetcher({ guard, timeoutMs: 30_000 }));
    opened.defer(() => tearDown(model));
    const all = { ...noSettings, ...settings };
    const warm = await warmModel({ model, pathOf, example: undefined, settings: all, fetcher });
    const local = openLocalEngine<ListItem>({ ...model.tensors, ...warm, maxBatchSize: warm.info.maxBatchSize });
    opened.defer(() => local.close());
    const pipeline = new ItemPipeline(model, fetcher);
    return new LocalModel(new ItemFlow(local.engine, pipeline), pipeline, warm.runners, opened.move());
  }

  /**
   * Runs the model.
   * @param inputs decoded inputs
   * @param parts gets the parts of the outputs as they come
   * @returns the outputs as JSON values
   * @throws SconceError of the first failed input
   */
  async predict(inputs: readonly unknown[], parts?: PartsReceiver): Promise<unknown[]> {
    const outputs = await predictAll(this.#flow, inputs, { signal: noSignal, parts });
    return outputs.map((output) => JSON.parse(wholeText(this.pipeline.encoder.encode(output))));
  }

  /**
   * Runs the model's demo on one input.
   * @param write gets the demo's log lines as they appear
   */
  async demo(
    input: unknown,
    write: (text: string) => void,
    parts: PartsReceiver,
  ): Promise<{ output: unknown; demo_output: unknown }> {
    const { outputs, demoOutputs } = await runDemo([input], {
      flow: this.#flow,
      pipeline: this.pipeline,
      signal: noSignal,
      take() {},
      parts,
      write: (text) => {
        write(text);
        return true;
      },
    });
    const [output, demo_output] = [outputs, demoOutputs].map(([first]) => JSON.parse(wholeText(first ?? "null")));
    return { output, demo_output };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#resources.disposeAsync();
  }
}

/**
 * Decodes an input by the model's schema.
 * @param name name of the input in messages
 * @throws SconceError with this code that names the faulty fields
 */
export function decoded({ input }: ModelFacts, json: unknown, code: ErrorCode, ...name: string[]): unknown {
  const { success, data, error } = input.safeParse(json);
  if (success) return data;
  throw new SconceError(code, faultsOf(error, ...name));
}
