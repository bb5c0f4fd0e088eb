/** `sconce build [DIR]` */
import { z } from "zod";
import { command } from "../command-line/command.ts";
import { missingFile } from "../command-line/missing-file.ts";
import { count, flag, openOption, option } from "../command-line/option.ts";
import { Progress } from "../command-line/progress.ts";
import { SconceError } from "../errors.ts";
import { log } from "../log.ts";
import { goldenTitle, mediaTypes } from "../store/manifest.ts";
import { checkRepository, checkTag } from "../store/reference.ts";
import { ModelStore } from "../store/store.ts";
import { modelFolder } from "./plain/model-folder.ts";
import { inputOption, isFile } from "./plain/tensor-input.ts";
import { compareOption } from "./try-out/compare-option.ts";
import { examine, type Finding, newExamination } from "./try-out/examination.ts";
import { externalOption } from "./try-out/external-option.ts";
import { goldenOf } from "./try-out/golden-outputs.ts";
import { configOf, withSource } from "./try-out/source-model.ts";
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
    external: externalOption,
    batchSize: openOption<number>({
      description: "Most items that go through a model of weights alone together",
      described: "the most that the file allows, up to 32",
      // SCONCE_BATCH_SIZE configures `serve`, so this option has another variable.
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
    compare: compareOption,
    timeout: timeoutOption,
  },
  positionals: [
    { name: "dir", description: "The model's folder, or a file of weights; default: this folder", required: false },
  ],
  async run({ options, positionals: [given = "."] }) {
    // Checks spelling first, because trying the model can take long.
    if (options.name !== undefined) checkRepository(options.name);
    if (options.tag !== undefined) checkTag(options.tag);
    if (options.weights !== undefined && !isFile(options.weights)) {
      throw new SconceError("usage", `--weights: ${missingFile(options.weights)}`);
    }
    using folder = await modelFolder(given, options);
    const { weights, compile: isCompiled } = options;
    const { code, model, examples, files, pathOf, golden } = await withSource(
      { dir: folder.path, weights, isCompiled, externals: options.external, timeoutS: options.timeout },
      async (source) => {
        const examination = newExamination();
        const { fixedRows, program } = folder;
        const item = await examine(source, examination, {
          isMeasured: false,
          isCompared: options.compare,
          fixedRows,
          program,
        });
        settle(examination.findings, options.allowRandom);
        const isSteady = examination.findings.every(({ effect }) => effect === "warned");
        return { ...source, golden: item && isSteady ? await goldenOf(source, item) : undefined };
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
        ...(golden === undefined ? [] : [{ mediaType: mediaTypes.golden, title: goldenTitle, source: golden }]),
        ...[...files].map(([title, mediaType]) => ({ mediaType, title, source: pathOf(title) })),
      ],
      onProgress: (step) => progress.update(step),
    });
    const { tag } = await putting.finally(() => progress.end());
    console.log(`${repository}:${options.tag ?? tag}`);
  },
});

/** Logs warnings, or refuses the model. @throws SconceError */
function settle(findings: readonly Finding[], isRandomAllowed: boolean): void {
  const refused = findings.find(({ effect }) => effect === "refused");
  if (refused !== undefined) throw refused.error;
  const messages = (wanted: Finding["effect"]) =>
    findings.flatMap(({ effect, error }) => (effect === wanted ? [error.message] : []));
  const unsteady = messages("unsteady");
  if (unsteady.length > 0 && !isRandomAllowed) {
    throw new SconceError("model_invalid", `${unsteady.join("; ")}; if that is meant, build with --allow-random`);
  }
  for (const message of [...messages("warned"), ...unsteady]) log.warn(message);
}
