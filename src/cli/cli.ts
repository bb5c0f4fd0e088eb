/** The command line of sconce. */
import { version } from "../../package.json";
import { programName } from "../machine/processes/program-name.ts";
import { modelStore } from "../package/model-source.ts";
import { rolesFor } from "../server/roles.ts";
import { type LazyCommand, lazyCommand } from "./command-line/command.ts";
import { exitCodes, runProgram } from "./command-line/program.ts";
import { folderSource } from "./commands/dev/folder-source.ts";

export const commands: Readonly<Record<string, LazyCommand>> = {
  serve: lazyCommand("Serve a model over HTTP", async () => (await import("./commands/serve.ts")).serve),
  predict: lazyCommand(
    "Run a model once, without a server",
    async () => (await import("./commands/predict.ts")).predict,
  ),
  init: lazyCommand("Write a model folder to start from", async () => (await import("./commands/init.ts")).init),
  build: lazyCommand("Package a model folder as repo:tag", async () => (await import("./commands/build.ts")).build),
  check: lazyCommand(
    "Run a model's example through every stage, and find mistakes in its export",
    async () => (await import("./commands/check.ts")).check,
  ),
  dev: lazyCommand(
    "Serve a model folder, and reload it whenever it changes",
    async () => (await import("./commands/dev.ts")).dev,
  ),
  compile: lazyCommand(
    "Make one executable file of a model",
    async () => (await import("./commands/compile.ts")).compile,
  ),
  image: lazyCommand(
    "Write a container image that serves a model",
    async () => (await import("./commands/image.ts")).image,
  ),
  models: lazyCommand("List the models of the store", async () => (await import("./commands/models.ts")).models),
  inspect: lazyCommand(
    "Print a packaged model's config and layers as JSON",
    async () => (await import("./commands/inspect.ts")).inspect,
  ),
  push: lazyCommand("Copy a model to a registry", async () => (await import("./commands/push.ts")).push),
  pull: lazyCommand("Copy a model from a registry", async () => (await import("./commands/pull.ts")).pull),
  tag: lazyCommand("Add a tag to a packaged model", async () => (await import("./commands/tag.ts")).tag),
  rm: lazyCommand("Remove tags, and models without remaining tags", async () => (await import("./commands/rm.ts")).rm),
  doctor: lazyCommand(
    "Check whether this machine can serve models",
    async () => (await import("./commands/doctor.ts")).doctor,
  ),
  completions: lazyCommand("Print a script that completes commands in a shell", async () =>
    (await import("./commands/completions.ts")).completionsCommand(commands),
  ),
};

const notes = `ENVIRONMENT

  SCONCE_HOME    The folder of the model store (default: sconce in your data directory)
     SCONCE_…    Any option, as SCONCE_BATCH_SIZE for --batch-size; a flag goes before it
     NO_COLOR    No colours, if it is set to anything

${exitCodes}`;

/** Runs one command line, without the program's name; sets the exit code: 0, 1 for a failure, 2 for a wrong call, 130 if interrupted. */
export async function main(argv: readonly string[]): Promise<void> {
  const description = "Packages PyTorch models and serves them over HTTP";
  await runProgram(
    {
      meta: { name: programName, description, version },
      subCommands: { ...commands },
      notes,
      version: () => version,
      roles: {
        ...rolesFor((argv) => folderSource(argv) ?? modelStore),
        declare: async (start, link) => (await import("./commands/dev/declare-role.ts")).declareRole(start, link),
      },
    },
    argv,
  );
}
