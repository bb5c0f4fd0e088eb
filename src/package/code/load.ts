/** Loads a model's bundle as a `Model`, and supplies the modules `sconce` and `zod` that it imports. */
import * as zod from "zod";
import { isModel, type Model, type OpenedModel, opened, withStated } from "../../author/define.ts";
import { paramsIn } from "../../author/params.ts";
import type { TensorSpecs } from "../../author/tensor.ts";
import { isNoFile, messageOf, SconceError } from "../../base/errors.ts";
import { forbidExit } from "../../machine/processes/exit.ts";
import type { PackagedModel } from "../store/packaged-model.ts";

const NAMESPACE = "sconce-model";
const bundles = new Map<string, string>();
let installed: Promise<void> | undefined;
let loads = 0;

/** Modules that a bundle leaves out and this program supplies. With separate copies, `instanceof` would fail. */
export const suppliedModules = ["sconce", "zod"] as const;

/**
 * Runs a bundle and returns the model that it exports. Each call makes its own module, so that two opened models share
 * no variables of the author's file.
 * @param bundle an ES module whose default export comes from `defineModel`
 * @param id name of the bundle in stack traces; several bundles may have the same name
 * @throws SconceError `model_invalid` when the code throws or exports no model
 */
export async function loadModel(bundle: string, id: string): Promise<Model> {
  installed ??= installModules();
  await installed;
  const key = `${id}-${loads++}.js`;
  bundles.set(key, bundle);
  const module = await importBundle(key);
  if (isModel(module.default)) return module.default;
  throw new SconceError(
    "model_invalid",
    "the model's file must have a default export: export default defineModel({ … })",
  );
}

/**
 * Opens a model of the store. Tensors and batch size that the author did not declare come from the model's stored
 * config.
 * @param param the operator's parameters, as `name=value`
 * @throws SconceError `model_invalid`, or `usage` for a wrong parameter
 */
export async function openPackaged(packaged: PackagedModel, param: readonly string[] = []): Promise<OpenedModel> {
  const { inputs, outputs, batchSize } = packaged.config;
  const model = await loadModel(await packaged.code(), packaged.digest);
  const stated = { inputs: specsOf(inputs), outputs: specsOf(outputs), batchSize };
  return opened(withStated(model, stated), paramsIn(model.params, param));
}

function specsOf(tensors: PackagedModel["config"]["inputs"]): TensorSpecs {
  return Object.fromEntries(tensors.map(({ name, dtype, dims }) => [name, { dtype, dims }]));
}

async function importBundle(key: string): Promise<{ readonly default?: unknown }> {
  try {
    return await import(`${NAMESPACE}:${key}`);
  } catch (error) {
    if (error instanceof SconceError) throw error;
    const fix = isNoFile(error)
      ? "; a packaged model has no folder, so import.meta.url leads nowhere: declare the file under assets, and read it in setup with context.asset(name)"
      : "";
    throw new SconceError("model_invalid", `the model's code failed while loading: ${messageOf(error)}${fix}`, {
      cause: error,
      clientMessage: "the model's code failed while loading",
    });
  } finally {
    bundles.delete(key);
    // Otherwise the registry of modules would keep the module for ever.
    delete require.cache[`${NAMESPACE}:${key}`];
  }
}

async function installModules(): Promise<void> {
  forbidExit();
  // Adds SconceError, because models packaged by earlier versions may import it from `sconce`.
  const sconce = { ...(await import("../../index.ts")), SconceError };
  Bun.plugin({
    name: "sconce",
    setup(build) {
      build.module("sconce", () => ({ exports: sconce, loader: "object" }));
      build.module("zod", () => ({ exports: zod, loader: "object" }));
      build.onResolve({ filter: /.*/, namespace: NAMESPACE }, ({ path }) => ({ path, namespace: NAMESPACE }));
      build.onLoad({ filter: /.*/, namespace: NAMESPACE }, ({ path }) => ({
        contents: bundles.get(path) ?? "",
        loader: "js",
      }));
    },
  });
}
