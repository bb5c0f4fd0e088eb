/** The root command: finds the subcommand, shows help, and turns every error into one line and an exit code. */
import { runCommand } from "citty";
import { version } from "../package.json";
import { closest } from "./closest.ts";
import { peekOptions } from "./commands/arguments.ts";
import type { Command } from "./commands/command.ts";
import { commandHelp, helpWidth, rootHelp } from "./commands/help.ts";
import { commonOptions } from "./config.ts";
import { messageOf, SconceError } from "./errors.ts";
import { configureLog, isLogJson, log } from "./log.ts";

interface Entry {
  readonly description: string;
  load(): Promise<Command>;
}

/** Loaded when they are called, so that `--version` does not load what `serve` needs. */
const commands: Readonly<Record<string, Entry>> = {
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

/** Runs one command line, without the program's name; sets the exit code: 0, 1 for a failure, 2 for a wrong call, 130 if it was interrupted. */
export async function main(argv: readonly string[]): Promise<void> {
  const { logLevel: level, logFormat: format } = peekOptions(argv, commonOptions);
  configureLog({ level, format });
  try {
    await run(argv);
  } catch (error) {
    process.exitCode = fail(error);
  }
}

async function run(argv: readonly string[]): Promise<void> {
  const [name, ...rest] = argv;
  const end = rest.indexOf("--");
  const flags = end < 0 ? rest : rest.slice(0, end);
  const asksForHelp = flags.includes("--help") || flags.includes("-h");
  if (name === undefined || isHelp(name)) return printHelp(rest.find((arg) => !arg.startsWith("-")));
  if (name === "--version" || name === "-v") return print(version);
  if (asksForHelp) return printHelp(name);
  const { definition } = await entryOf(name).load();
  await runCommand(definition, { rawArgs: rest });
}

function isHelp(name: string): boolean {
  return name === "help" || name === "--help" || name === "-h";
}

/** Of a command; without one, of all. */
async function printHelp(name: string | undefined): Promise<void> {
  const width = helpWidth(process.stdout);
  if (name !== undefined) return print(commandHelp((await entryOf(name).load()).help, width));
  const list = Object.entries(commands).map(([each, { description }]) => [each, description] as const);
  print(rootHelp({ version, commands: list }, width));
}

/** @throws SconceError `usage` */
function entryOf(name: string): Entry {
  const entry = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (entry !== undefined) return entry;
  if (name.startsWith("-")) {
    const near = closest(name, ["--help", "--version"]);
    const hint = near === undefined ? "options stand after the command" : `did you mean ${near}?`;
    throw new SconceError("usage", `unknown option ${name}; ${hint} (see --help)`);
  }
  const near = closest(name, Object.keys(commands));
  const hint = near === undefined ? `known: ${Object.keys(commands).join(", ")}` : `did you mean ${near}?`;
  throw new SconceError("usage", `unknown command ${name}; ${hint}`);
}

/** Standard output carries results; colours go only to a terminal. */
function print(text: string): void {
  const isColoured = process.stdout.isTTY && !process.env.NO_COLOR;
  console.log(isColoured ? text : Bun.stripANSI(text));
}

/** One line on standard error; the stack only for those who asked to debug. */
function fail(error: unknown): number {
  // Who reads the output has had enough of it, like `head`: nothing is wrong.
  if (error instanceof Error && "code" in error && error.code === "EPIPE") return 0;
  const isKnown = error instanceof SconceError;
  if (isLogJson()) {
    log.error(isKnown ? error : `unexpected error: ${messageOf(error)}`);
    if (error instanceof Error) log.debug(error.stack ?? "");
  } else {
    const line = isKnown ? error.message : `unexpected error: ${messageOf(error)}`;
    process.stderr.write(`sconce: ${line.replaceAll(/\s*\n\s*/g, " ")}\n`);
    if (log.level >= 4) console.error(error);
  }
  // Which signal it was makes no difference to a shell: the command was interrupted.
  if (isKnown && error.code === "canceled") return 130;
  return isKnown && error.code === "usage" ? 2 : 1;
}
