/** The command `sconce` and its subcommands. */
import { version } from "../../package.json";
import { programName } from "../machine/processes/program-name.ts";
import { rolesFor } from "../server/roles.ts";
import type { Commands } from "./command-line/command.ts";
import { runProgram } from "./command-line/program.ts";
import { storeOrFolder } from "./commands/dev/folder-source.ts";

export const commands: Commands = {
  serve: {
    description: "Serve a model over HTTP",
    load: async () => (await import("./commands/serve.ts")).serve,
  },
  predict: {
    description: "Run a model once, without a server, and print its output as JSON",
    load: async () => (await import("./commands/predict.ts")).predict,
  },
  init: {
    description: "Write a model folder to start from",
    load: async () => (await import("./commands/init.ts")).init,
  },
  build: {
    description: "Package a model folder or a weights file",
    load: async () => (await import("./commands/build.ts")).build,
  },
  check: {
    description: "Run a model's example through every stage, and find mistakes in its export",
    load: async () => (await import("./commands/check.ts")).check,
  },
  dev: {
    description: "Serve a model folder, and reload it whenever it changes",
    load: async () => (await import("./commands/dev.ts")).dev,
  },
  compile: {
    description: "Make one executable file of a model, the server and libtorch",
    load: async () => (await import("./commands/compile.ts")).compile,
  },
  image: {
    description: "Write a container image that serves a model",
    load: async () => (await import("./commands/image.ts")).image,
  },
  models: {
    description: "List the models in the store",
    load: async () => (await import("./commands/models.ts")).models,
  },
  inspect: {
    description: "Print a packaged model's config and layers as JSON",
    load: async () => (await import("./commands/inspect.ts")).inspect,
  },
  push: {
    description: "Copy a model to a registry",
    load: async () => (await import("./commands/push.ts")).push,
  },
  pull: {
    description: "Copy a model from a registry",
    load: async () => (await import("./commands/pull.ts")).pull,
  },
  tag: {
    description: "Add a tag to a packaged model",
    load: async () => (await import("./commands/tag.ts")).tag,
  },
  rm: {
    description: "Remove tags, and models without remaining tags",
    load: async () => (await import("./commands/rm.ts")).rm,
  },
  key: {
    description: "Make an API key for `serve --api-keys`",
    load: async () => (await import("./commands/key.ts")).key,
  },
  config: {
    description: "Check an options file of serve",
    load: async () => (await import("./commands/config.ts")).configCommand,
  },
  doctor: {
    description: "Check whether this machine can serve models",
    load: async () => (await import("./commands/doctor.ts")).doctor,
  },
};

/**
 * Runs a command. `argv` has no program name. Sets the exit code: 0 done, 1 failed, 2 wrong arguments, 130 interrupted.
 */
export async function main(argv: readonly string[]): Promise<void> {
  await runProgram(
    {
      name: programName,
      description: () => "Packages PyTorch models and serves them over HTTP",
      commands,
      version: () => version,
      roles: {
        ...rolesFor(storeOrFolder),
        declare: async (start, link) => (await import("./commands/dev/declare-role.ts")).declareRole(start, link),
      },
    },
    argv,
  );
}
