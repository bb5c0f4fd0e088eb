/** Entry of an executable that contains a model and serves it by default. */
import { basename, dirname, join } from "node:path";
import { version } from "../../../package.json";
import { setPixelsFile } from "../../base/platform-package.ts";
import type { Contents, EmbeddedModel } from "../../package/executable/contents.ts";
import { type ModelSource, modelStore } from "../../package/model-source.ts";
import { annotations } from "../../package/store/manifest.ts";
import { PackagedModel } from "../../package/store/packaged-model.ts";
import { ModelStore } from "../../package/store/store.ts";
import { rolesFor } from "../../server/roles.ts";
import type { Commands } from "../command-line/command.ts";
import { runProgram } from "../command-line/program.ts";
import { inspectCommand } from "../commands/inspect.ts";
import { predictCommand } from "../commands/predict.ts";
import { serveCommand } from "../commands/serve.ts";
import { prepareLibraries, unpackLibraries } from "./prepare-libraries.ts";

/** Runs a command. `argv` has no program name. */
export async function main(contents: Contents, argv: readonly string[]): Promise<void> {
  const name = `./${basename(process.execPath)}`;
  setPixelsFile(contents.pixels);
  const source = sourceOf(contents);
  const commands: Commands = {
    serve: {
      description: "Serve the model over HTTP",
      load: async () => serveCommand(source, `${name} --batch-size 16 --port 8080`),
    },
    predict: {
      description: "Run the model once, without a server, and print its output as JSON",
      load: async () => predictCommand(source, `${name} predict --example`),
    },
    inspect: {
      description: "Print the model's config and layers as JSON",
      load: async () => inspectCommand(source, `${name} inspect`),
    },
  };
  await runProgram(
    {
      name,
      description: async () =>
        `Serves the model ${(await source.resolve(undefined)).reference} over HTTP; this file contains everything`,
      commands,
      default: "serve",
      version: async () => versionText(contents, await source.resolve(undefined)),
      roles: rolesFor(source),
    },
    argv,
  );
}

function versionText({ torch }: Contents, { reference, digest }: PackagedModel): string {
  return `sconce ${version}\nmodel ${reference} ${digest}\ntorch ${torch}`;
}

function sourceOf(contents: Contents): ModelSource {
  return {
    reference: undefined,
    resolve: async (reference, options) => {
      const own = await modelOf(contents);
      const isOwn = reference === undefined || reference === own.byDigest;
      const isHere = options?.home === undefined || options.home === own.home;
      return isOwn && isHere ? own : modelStore.resolve(reference, options);
    },
    tagsOf: async ({ tag }) => [tag],
    // Does not verify embedded files, which are as trusted as the program itself.
    verify: async (model, known) =>
      model.digest === (await modelOf(contents)).digest ? {} : modelStore.verify(model, known),
    unpackLibraries: () => unpackLibraries(contents),
    prepareLibraries: () => prepareLibraries(contents),
  };
}

async function modelOf({ model }: Contents): Promise<PackagedModel> {
  if (model === "beside") return new ModelStore(join(dirname(process.execPath), "model")).resolve();
  return embedded(model);
}

function embedded({ layers, ...model }: EmbeddedModel): PackagedModel {
  return new PackagedModel({
    ...model,
    // The executable does not contain the build time.
    created: undefined,
    layers: model.manifest.layers.map(({ mediaType, digest, size, annotations: { [annotations.title]: title } }) => ({
      mediaType,
      title,
      digest,
      size,
      path: layers[title] ?? "",
    })),
  });
}
