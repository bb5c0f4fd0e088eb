/** The command line of sconce. */
import { version } from "../package.json";
import { rootHelp } from "./commands/help.ts";
import { modelStore } from "./commands/model-source.ts";
import { type CommandEntry, runProgram } from "./program.ts";
import { rolesFor } from "./roles.ts";

const commands: Readonly<Record<string, CommandEntry>> = {
  serve: { description: "Serve a model over HTTP", load: async () => (await import("./commands/serve.ts")).serve },
  predict: {
    description: "Run a model once, without a server",
    load: async () => (await import("./commands/predict.ts")).predict,
  },
  init: {
    description: "Write a model folder to start from",
    load: async () => (await import("./commands/init.ts")).init,
  },
  build: {
    description: "Package a model folder as repo:tag",
    load: async () => (await import("./commands/build.ts")).build,
  },
  compile: {
    description: "Make one executable file of a model",
    load: async () => (await import("./commands/compile.ts")).compile,
  },
  image: {
    description: "Write a container image that serves a model",
    load: async () => (await import("./commands/image.ts")).image,
  },
  models: {
    description: "List the models of the store",
    load: async () => (await import("./commands/models.ts")).models,
  },
  inspect: {
    description: "Print what a packaged model is made of, as JSON",
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
    description: "Give a packaged model one more tag",
    load: async () => (await import("./commands/tag.ts")).tag,
  },
  rm: {
    description: "Remove tags, and the models that no tag is left of",
    load: async () => (await import("./commands/rm.ts")).rm,
  },
};

/** Runs one command line, without the program's name; sets the exit code: 0, 1 for a failure, 2 for a wrong call, 130 if interrupted. */
export async function main(argv: readonly string[]): Promise<void> {
  const list = Object.entries(commands).map(([name, { description }]) => [name, description] as const);
  const help = (width: number) => rootHelp({ version, commands: list }, width);
  await runProgram({ name: "sconce", version: () => version, commands, roles: rolesFor(() => modelStore), help }, argv);
}
