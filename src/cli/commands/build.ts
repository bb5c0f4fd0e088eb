/** `sconce build [DIR]`: packages a model into the store. */
import { resolve } from "node:path";
import { z } from "zod";
import { SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { count, flagOff, flagOn, openOption, option } from "../../base/option.ts";
import { Progress } from "../../base/progress.ts";
import { goldenTitle, mediaTypes } from "../../package/store/manifest.ts";
import { checkTag, parseReference } from "../../package/store/reference.ts";
import { ModelStore } from "../../package/store/store.ts";
import { examine } from "../build/examination.ts";
import { newExamination } from "../build/examination-report.ts";
import { exportMistakes } from "../build/export-mistakes.ts";
import type { Finding } from "../build/finding.ts";
import { goldenOf } from "../build/golden-outputs.ts";
import { modelFolder } from "../build/plain/model-folder.ts";
import { inputOption, isFile } from "../build/plain/tensor-input.ts";
import { configOf, withSource } from "../build/source-model.ts";
import { compareOption, externalOption, timeoutOption } from "../build/trial-options.ts";
import { typeFindings } from "../build/type-check.ts";
import { command, usage } from "../command-line/command.ts";

export const build = command({
  details: `The command bundles model.ts with its npm packages, checks its types if a tsconfig.json is near, loads the weights, runs the example twice alone and once in a batch, and copies everything into the model store. At the end, it prints repo:tag. The tag is derived from the content: equal content gets an equal tag. The tag latest moves to the new build. With --no-latest, latest moves only if the model has no other build.

A weights file becomes a model with arrays as inputs and outputs. Exported programs (torch.export.save) and AOTInductor packages describe their input tensors. TorchScript, an older format, does not: use --input.

An exported program runs uncompiled on any processor or GPU. --aot compiles the program into a native library, for this processor or for the kind of GPU on which the network was exported. Compilation needs Python with torch, and a C++ compiler. A program that cannot run uncompiled is always compiled.`,
  example: `sconce build examples/digits -t digits:v1
sconce build classifier.pt2 -t classifier
sconce build traced.pt --input x=float32[N,784]`,
  options: {
    tag: openOption<string>({
      description: "NAME or NAME:TAG, as for docker build; :TAG keeps the model's name",
      valueHint: "[name][:tag]",
      alias: "t",
      described: "the model's name, or the file's",
      parse: z.string().min(1, "must be NAME, NAME:TAG or :TAG"),
    }),
    latest: option({
      description: "Move the tag latest to this build; with --no-latest only if the model has no other build",
      ...flagOn,
    }),
    aot: option({
      description: "Compile exported programs with AOTInductor, for this processor or the GPU of the export",
      ...flagOff,
    }),
    input: inputOption,
    external: externalOption,
    batchSize: openOption<number>({
      description: "Largest batch of a model from a weights file",
      described: "the largest that the file allows, up to 32",
      // SCONCE_BATCH_SIZE would be the default variable, but it configures `serve`.
      variable: "SCONCE_MODEL_BATCH_SIZE",
      ...count(1, 65536),
    }),
    allowRandom: option({
      description: "Package a model whose outputs differ between runs, or depend on other items of the batch",
      ...flagOff,
    }),
    compare: compareOption,
    timeout: timeoutOption,
  },
  positionals: [
    { name: "dir", description: "The model's folder, or a weights file; default: this folder", required: false },
  ],
  async run({ options, positionals: [dir = "."] }) {
    // Checks the spelling of the name first, because trying the model can take long.
    const { name, tag: ownTag } = nameAndTag(options.tag);
    using folder = await modelFolder(dir, { ...options, name });
    // The compiler runs beside the trial, in its own process.
    const isOver = new AbortController();
    using _ = { [Symbol.dispose]: () => isOver.abort() };
    const types = isFile(dir) ? Promise.resolve([]) : typeFindings(resolve(dir), isOver.signal);
    types.catch(() => {});
    const { code, model, batchSize, examples, files, pathOf, golden } = await withSource(
      { dir: folder.path, isCompiled: options.aot, externals: options.external, timeoutS: options.timeout },
      async (source) => {
        const examination = newExamination();
        const { fixedRows, program } = folder;
        const run = await examine(source, examination, {
          isMeasured: false,
          isCompared: options.compare,
          fixedRows,
          program,
        });
        examination.findings.push(...(await types));
        settle(examination.findings, options.allowRandom);
        const isSteady = examination.findings.every(({ effect }) => effect === "warned");
        return { ...source, golden: run && isSteady ? await goldenOf(source, run) : undefined };
      },
    );
    const repository = name ?? model.name;
    const progress = new Progress({ verb: "Copying" });
    const putting = new ModelStore().put({
      repository,
      tags: ownTag === undefined ? [] : [ownTag],
      isVariant: !options.latest,
      config: configOf({ model, batchSize, examples, pathOf }),
      layers: [
        { mediaType: mediaTypes.bundle, title: "model.js", source: new TextEncoder().encode(code) },
        ...(golden === undefined ? [] : [{ mediaType: mediaTypes.golden, title: goldenTitle, source: golden }]),
        ...[...files].map(([title, mediaType]) => ({ mediaType, title, source: pathOf(title) })),
      ],
      onProgress: (step) => progress.update(step),
    });
    const { tag } = await putting.finally(() => progress.end());
    console.log(`${repository}:${ownTag ?? tag}`);
  },
});

/** Splits the value of --tag. @throws SconceError `usage` for a misspelled name or tag */
function nameAndTag(given: string | undefined): { readonly name?: string; readonly tag?: string } {
  if (given === undefined) return {};
  if (given.startsWith(":")) return { tag: checkTag(given.slice(1), given) };
  const reference = parseReference(given);
  if (!("tag" in reference)) throw usage(`--tag must be NAME[:TAG], not the digest ${given}`);
  const { repository: name, tag } = reference;
  return given === name ? { name } : { name, tag };
}

/** The error of a finding. If the export fixes the batch size, the message ends with Python code that frees it. */
function withFix({ mistake, error, python }: Finding): SconceError {
  if (mistake !== exportMistakes.fixedBatch.name || python === undefined) return error;
  return new SconceError(error.code, `${error.message}. In Python: ${python}`, { cause: error });
}

/** Logs findings that are warnings. @throws SconceError for a refused model, or unsteady outputs if not allowed */
function settle(findings: readonly Finding[], isRandomAllowed: boolean): void {
  const refused = findings.filter(({ effect }) => effect === "refused");
  const [first] = refused;
  if (first !== undefined && first.mistake !== "types") throw withFix(first);
  if (first !== undefined) {
    const errors = refused.map(({ error }) => error.message).join("\n");
    throw new SconceError("model_invalid", `model.ts has type errors: ${errors}`);
  }
  const messages = (wanted: Finding["effect"]) =>
    findings.flatMap((finding) => (finding.effect === wanted ? [withFix(finding).message] : []));
  const unsteady = messages("unsteady");
  if (unsteady.length > 0 && !isRandomAllowed) {
    throw new SconceError("model_invalid", `${unsteady.join("; ")}; if that is meant, build with --allow-random`);
  }
  for (const message of [...messages("warned"), ...unsteady]) log.warn(message);
}
