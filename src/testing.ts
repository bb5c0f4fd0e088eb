/** The module `sconce/testing`: runs the functions and weights of a model folder without a server. */
import { resolve } from "node:path";
import type { ModelFacts } from "./author/define.ts";
import type { Tensor } from "./author/tensor.ts";
import { openSource, withFiles } from "./cli/build/source-model.ts";
import { itemCheck } from "./engine/item-check.ts";
import { rowParting } from "./engine/rows.ts";
import { decoded, LocalModel } from "./pipeline/local-model.ts";
import { prepareInput } from "./pipeline/set-up.ts";

export interface TestOptions {
  /** Device for the weights: `cpu`, `cuda:N` or `auto`. Default `cpu`. */
  readonly device?: string;
  /** CPU threads for the weights. Default 1. */
  readonly threads?: number;
  /** Values of the model's parameters. Other parameters keep their defaults. */
  readonly params?: Readonly<Record<string, unknown>>;
}

/** A loaded model. At the end of its scope, `await using` frees the weights. */
export interface TestModel extends AsyncDisposable {
  readonly model: ModelFacts;
  /**
   * Runs inputs through the whole model, in batches as a server does.
   * @param inputs JSON values. A file field may have a path relative to the model's folder
   * @returns the outputs as JSON values, one for each input
   * @throws the error of the first failed input, with the full text, which a server writes only to its log
   */
  predict<Output = unknown>(inputs: readonly unknown[]): Promise<Output[]>;
  /**
   * Runs `preprocess`.
   * @returns the tensors of one item, by name
   */
  preprocess(input: unknown): Promise<Readonly<Record<string, Tensor>>>;
  /**
   * Runs the weights, or `predict` of the model, in a batch with one item.
   * @param tensors of one item, without a batch dimension
   * @returns a row of each output tensor, by name
   */
  run(tensors: Readonly<Record<string, Tensor>>): Promise<Readonly<Record<string, Tensor>>>;
}

/**
 * Opens the model in a folder: `model.ts`, weights and assets. Runs `setup`.
 * @throws an error that names the fault of the declaration or of the weights
 */
export async function openModel(folder: string, options: TestOptions = {}): Promise<TestModel> {
  const dir = resolve(folder);
  const { device = "cpu", threads = 1, params } = options;
  const { model, pathOf } = await openSource(dir, params);
  const local = await LocalModel.open(model, { pathOf, settings: { device, threads } });
  const [check, part] = [itemCheck(model.tensors.inputs), rowParting(model.tensors.outputs)];
  const read = async (input: unknown) =>
    decoded(model, await withFiles(model, input, dir, "input"), "inputs_invalid", "input");
  return {
    model,
    async predict<Output>(inputs: readonly unknown[]) {
      return (await local.predict(await Promise.all(inputs.map(read)))) as Output[];
    },
    preprocess: async (input) => prepareInput(local.pipeline, await read(input)),
    async run(tensors) {
      const [runner] = local.runners;
      if (runner === undefined) throw new RangeError("the model has no runner");
      const item = check(tensors);
      return part(await runner.run([item.tensors]), 0, item.padded);
    },
    [Symbol.asyncDispose]: () => local[Symbol.asyncDispose](),
  };
}
