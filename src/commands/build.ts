/** `sconce build [DIR]` */
import { existsSync } from "node:fs";
import { z } from "zod";
import { command } from "../command-line/command.ts";
import { count, flag, openOption, option } from "../command-line/option.ts";
import { Progress } from "../command-line/progress.ts";
import { exampleOrZeros } from "../engine/warm-up.ts";
import { SconceError } from "../errors.ts";
import { AddressGuard } from "../fetching/address-guard.ts";
import { Fetcher } from "../fetching/fetcher.ts";
import { log } from "../log.ts";
import type { Model } from "../model/define.ts";
import { decodeExample, predictOne, prepareExample, setUp } from "../serving/set-up.ts";
import { tryOutputs, tryPostprocess } from "../serving/trial.ts";
import { mediaTypes } from "../store/manifest.ts";
import { checkRepository, checkTag } from "../store/reference.ts";
import { ModelStore } from "../store/store.ts";
import { modelFolder } from "./plain/model-folder.ts";
import { inputOption } from "./plain/tensor-input.ts";
import { configOf, deviceHere, type SourceModel, withSource } from "./try-out/source-model.ts";
import { timeoutOption } from "./try-out/timeout-option.ts";

export const build = command({
  name: "build",
  description: "Package a model folder, or weights alone, as repo:tag, after trying it once",
  details: `Bundles model.ts with its npm packages, loads the weights, runs the example alone, again and in a batch, and copies all into the model store. Prints repo:tag last, where the tag is made of the content: the same content gets the same tag. The tag latest moves to it; only if the model has no other build with --no-latest, and with --weights, since the folder alone says what latest is.

Weights alone make a model that takes and gives arrays. An exported program (torch.export.save) and an AOTInductor package say which tensors they take; of TorchScript, which is older, --input says it.

An exported program runs as it is, on any processor or GPU. With --compile it becomes one native library, for this processor or the kind of GPU that it was exported on; that takes a Python with torch and a C++ compiler. What can only run compiled is compiled anyway.`,
  example: `sconce build examples/digits --tag v1
sconce build classifier.pt2 --name classifier
sconce build traced.pt --input x=float32[N,784]`,
  options: {
    name: openOption<string>({
      description: "Repository",
      valueHint: "repo",
      alias: "n",
      described: "the model's name, or the file's",
      parse: z.string().min(1, "must be a name"),
    }),
    tag: openOption<string>({
      description: "A tag beside the generated one and latest",
      valueHint: "tag",
      alias: "t",
      described: "none",
      parse: z.string().min(1, "must be a tag"),
    }),
    latest: option({
      description: "Move the tag latest to it; --no-latest only if the model has no other build",
      default: true,
      parse: flag,
    }),
    weights: openOption<string>({
      description: "Weights to package in place of the model's, e.g. compiled for a processor",
      valueHint: "file",
      alias: "w",
      described: "the model's",
      parse: z.string().min(1, "must be a file"),
    }),
    compile: option({
      description:
        "Compile exported programs with AOTInductor, for this processor, or the GPU that they were exported on",
      default: false,
      parse: flag,
    }),
    input: inputOption,
    batchSize: openOption<number>({
      description: "Most items that go through a model of weights alone together",
      described: "the most that the file allows, up to 32",
      // Where that of its name is set, it is meant for serve.
      variable: "SCONCE_MODEL_BATCH_SIZE",
      ...count(1, 65536),
    }),
    eject: openOption<string>({
      description: "Folder to write the model of weights alone into, to go on from",
      valueHint: "dir",
      described: "none",
      parse: z.string().min(1, "must be a folder"),
    }),
    allowRandom: option({
      description: "Package a model whose outputs differ from run to run, or with the other items of a batch",
      default: false,
      parse: flag,
    }),
    timeout: timeoutOption,
  },
  positionals: [
    { name: "dir", description: "The model's folder, or a file of weights; default: this folder", required: false },
  ],
  async run({ options, positionals: [given = "."] }) {
    // What is misspelled is said before the model is tried out, which can take long.
    if (options.name !== undefined) checkRepository(options.name);
    if (options.tag !== undefined) checkTag(options.tag);
    if (options.weights !== undefined && !existsSync(options.weights)) {
      throw new SconceError("usage", `--weights: ${options.weights} is not a file`);
    }
    using folder = await modelFolder(given, options);
    const { weights, compile: isCompiled } = options;
    const { code, model, examples, files, pathOf } = await withSource(
      { dir: folder.path, weights, isCompiled, timeoutS: options.timeout },
      async (source) => {
        await tryOut(source, options.allowRandom);
        return source;
      },
    );
    const repository = options.name ?? model.name;
    const progress = new Progress({ verb: "Copying" });
    const putting = new ModelStore().put({
      repository,
      tags: options.tag === undefined ? [] : [options.tag],
      isVariant: weights !== undefined || !options.latest,
      config: configOf({ model, examples, pathOf }),
      layers: [
        { mediaType: mediaTypes.bundle, title: "model.js", source: new TextEncoder().encode(code) },
        ...[...files].map(([title, mediaType]) => ({ mediaType, title, source: pathOf(title) })),
      ],
      onProgress: (step) => progress.update(step),
    });
    const { tag } = await putting.finally(() => progress.end());
    console.log(`${repository}:${options.tag ?? tag}`);
  },
});

/** Loads the weights and runs the example, so that a model that cannot be served is not packaged. */
async function tryOut(source: SourceModel, isRandom: boolean): Promise<void> {
  const { model, example, pathOf } = source;
  using fetcher = new Fetcher({ guard: new AddressGuard() });
  const running = await setUp({
    model,
    pathOf,
    example,
    settings: {
      batchSize: undefined,
      maxQueueDelayMs: 0,
      latencyTargetMs: Infinity,
      device: deviceHere(model),
      instances: 1,
      threads: undefined,
      maxInputs: undefined,
    },
    fetcher,
  });
  try {
    if (example !== undefined) {
      await predictOne(running, decodeExample(model, example));
      await requireSteady(model, { running, example, isRandom });
    } else log.warn("The model declares no example: it was built without a trial run");
  } finally {
    await running.engine.close();
  }
}

type Trying = Awaited<ReturnType<typeof setUp>>;

async function requireSteady(
  model: Model,
  { running, example, isRandom }: { running: Trying; example: unknown; isRandom: boolean },
): Promise<void> {
  const { runners, pipeline, facts } = running;
  const { tensors } = model;
  const prepared = () => prepareExample(model, pipeline, example);
  const examples = [await prepared(), await prepared()] as const;
  const [item, again] = examples.map((each) => exampleOrZeros(tensors.inputs, each.tensors));
  const [runner] = runners;
  if (runner === undefined || item === undefined || again === undefined) return;
  const isOnCpu = facts.devices.includes("cpu");
  const maxBatchSize = model.settings.batchSize && facts.maxBatchSize;
  const tried = await tryOutputs(runner, { tensors, items: [item, again], maxBatchSize, isOnCpu });
  const unsteady = await tryPostprocess({ model, pipeline, examples, results: await runner.run([item]) });
  const faults = [...tried.map(({ fault }) => fault?.message), unsteady].filter((fault) => fault !== undefined);
  if (faults.length === 0) return;
  if (isRandom) for (const fault of faults) log.warn(fault);
  else throw new SconceError("model_invalid", `${faults.join("; ")}; if that is meant, build with --allow-random`);
}
