/** A command line with subcommands: finds the command, shows help, and turns every error into one line and an exit code. */
import { runCommand } from "citty";
import { closest } from "./closest.ts";
import { peekOptions } from "./commands/arguments.ts";
import type { Command } from "./commands/command.ts";
import { commandHelp, helpWidth } from "./commands/help.ts";
import { commonOptions } from "./config.ts";
import { messageOf, SconceError } from "./errors.ts";
import { configureLog, isLogJson, log } from "./log.ts";
import { type Roles, roleOf, runRole } from "./processes/link.ts";

export interface Program {
  /** As it is typed. */
  readonly name: string;
  /** What `--version` prints. */
  version(): string | Promise<string>;
  readonly commands: Readonly<Record<string, CommandEntry>>;
  /** The command that is meant where none is named, not even with options; without one that asks for help. */
  readonly defaultCommand?: string;
  /** What it does as a child process of itself, which no help mentions. */
  readonly roles: Roles;
  /** Help of the program as a whole. */
  help(width: number): string | Promise<string>;
}

export interface CommandEntry {
  readonly description: string;
  /** Called when the command is: `--version` does not load what `serve` needs. */
  load(): Promise<Command>;
}

/** Runs one command line, without the program's name; sets the exit code: 0, 1 for a failure, 2 for a wrong call. */
export async function runProgram(program: Program, argv: readonly string[]): Promise<void> {
  const { logLevel: level, logFormat: format } = peekOptions(argv, commonOptions);
  configureLog({ level, format });
  try {
    await run(program, argv);
  } catch (error) {
    process.exitCode = fail(error);
  }
}

async function run(program: Program, argv: readonly string[]): Promise<void> {
  const role = roleOf(argv);
  if (role !== undefined) return runRole(program.roles, role);
  const [first] = argv;
  if (first === "--version" || first === "-v") return print(await program.version());
  if (first === undefined ? program.defaultCommand === undefined : isHelp(first)) {
    return printHelp(
      program,
      argv.slice(1).find((arg) => !arg.startsWith("-")),
    );
  }
  const [name, rest] = split(program, argv);
  const end = rest.indexOf("--");
  const flags = end < 0 ? rest : rest.slice(0, end);
  if (flags.includes("--help") || flags.includes("-h")) return printHelp(program, name);
  const { definition } = await entryOf(program, name).load();
  await runCommand(definition, { rawArgs: rest });
}

function isHelp(name: string): boolean {
  return name === "help" || name === "--help" || name === "-h";
}

/** The command's name, and what follows it. */
function split({ defaultCommand }: Program, [first = "", ...rest]: readonly string[]): [string, string[]] {
  if (defaultCommand === undefined || (first !== "" && !first.startsWith("-"))) return [first, rest];
  return [defaultCommand, first === "" ? [] : [first, ...rest]];
}

/** Of a command; without one, of all. */
async function printHelp(program: Program, name: string | undefined): Promise<void> {
  const width = helpWidth(process.stdout);
  if (name === undefined || name === program.defaultCommand) return print(await program.help(width));
  print(commandHelp((await entryOf(program, name).load()).help, { program: program.name, width }));
}

/** @throws SconceError `usage` */
function entryOf({ commands }: Program, name: string): CommandEntry {
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

/** One line of what may have come from elsewhere, without what controls a terminal or turns its text around. */
function printable(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, " ").replaceAll(/[\p{Cc}\p{Bidi_Control}]+/gu, " ");
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
    process.stderr.write(`sconce: ${printable(line)}\n`);
    if (log.level >= 4) console.error(error);
  }
  // Which signal it was makes no difference to a shell: the command was interrupted.
  if (isKnown && error.code === "canceled") return 130;
  return isKnown && error.code === "usage" ? 2 : 1;
}
