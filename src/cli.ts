/** The root command: finds the subcommand, shows help, and turns every error into one line and an exit code. */
import { renderUsage } from "citty";
import { version } from "../package.json";
import { closest } from "./closest.ts";
import type { Command } from "./commands/command.ts";
import { messageOf, SconceError } from "./errors.ts";
import { log } from "./log.ts";

/** Loaded when they are called, so that `--version` does not load what `serve` needs. */
const commands: Readonly<Record<string, { readonly description: string; load(): Promise<Command> }>> = {
  serve: { description: "Serve a model over HTTP", load: async () => (await import("./commands/serve.ts")).serve },
  build: {
    description: "Package a model folder as repo:tag",
    load: async () => (await import("./commands/build.ts")).build,
  },
  models: {
    description: "List the models of the store",
    load: async () => (await import("./commands/models.ts")).models,
  },
};

/** Runs one command line, without the program's name; sets the exit code: 0, 1 for a failure, 2 for a wrong call. */
export async function main(argv: readonly string[]): Promise<void> {
  try {
    await run(argv);
  } catch (error) {
    process.exitCode = fail(error);
  }
}

async function run(argv: readonly string[]): Promise<void> {
  const [name, ...rest] = argv;
  if (name === undefined || name === "--help" || name === "-h") return print(rootHelp());
  if (name === "--version" || name === "-v") return print(version);
  const entry = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (entry === undefined) throw unknownCommand(name);
  const { definition, example, run: runCommand } = await entry.load();
  const end = rest.indexOf("--");
  const flags = end < 0 ? rest : rest.slice(0, end);
  if (flags.includes("--help") || flags.includes("-h")) {
    const usage = await renderUsage(definition, { meta: { name: "sconce" } });
    return print(
      `${usage}\nEvery option can also be set by a variable: --batch-size by SCONCE_BATCH_SIZE.\n\nEXAMPLE\n\n  ${example}\n`,
    );
  }
  await runCommand(rest);
}

function rootHelp(): string {
  const width = Math.max(...Object.keys(commands).map((name) => name.length));
  const lines = Object.entries(commands).map(([name, { description }]) => `  ${name.padEnd(width)}  ${description}`);
  return `Serves packaged PyTorch models (sconce ${version})

USAGE sconce <command> [options]

COMMANDS

${lines.join("\n")}

sconce <command> --help shows a command's options. Models are kept in $SCONCE_HOME.`;
}

function unknownCommand(name: string): SconceError {
  const near = closest(name, Object.keys(commands));
  const hint = near === undefined ? `known: ${Object.keys(commands).join(", ")}` : `did you mean ${near}?`;
  return new SconceError("usage", `unknown ${name.startsWith("-") ? "option" : "command"} ${name}; ${hint}`);
}

/** Standard output carries results; colours go only to a terminal. */
function print(text: string): void {
  const isColoured = process.stdout.isTTY && !process.env.NO_COLOR;
  console.log(isColoured ? text : Bun.stripANSI(text));
}

/** One line on standard error; the stack only for those who asked to debug. */
function fail(error: unknown): number {
  const isDebugging = log.level >= 4;
  const line = error instanceof SconceError ? error.message : `unexpected error: ${messageOf(error)}`;
  process.stderr.write(`sconce: ${line.replaceAll(/\s*\n\s*/g, " ")}\n`);
  if (isDebugging) console.error(error);
  return error instanceof SconceError && error.code === "usage" ? 2 : 1;
}
