/**
 * A command line with subcommands: finds the command, prints help, and turns every error into one line and an exit
 * code.
 */
import { resolve } from "node:path";
import { type CommandDef, runCommand } from "citty";
import { messageWithLine } from "../../base/author-line.ts";
import { closest } from "../../base/closest.ts";
import { messageOf, SconceError } from "../../base/errors.ts";
import { exitProcess } from "../../base/exit.ts";
import { configureLog, isLogJson, log } from "../../base/log.ts";
import { type Roles, roleOf, runRole } from "../../machine/processes/link.ts";
import { commonOptions } from "../../server/config.ts";
import { peekOptions } from "./arguments.ts";
import type { Command, LazyCommand } from "./command.ts";
import { type HelpTexts, helpOf, helpWidth } from "./help.ts";

export interface Program extends HelpTexts, CommandDef {
  readonly subCommands: Record<string, Command | LazyCommand>;
  /** Command that runs when none is named, even if options are given. Without a default, the program prints help. */
  readonly default?: string;
  /** Output of `--version`. */
  version(): string | Promise<string>;
  /** Internal roles of child processes, which help does not list. */
  readonly roles: Roles;
}

export const exitCodes =
  "Exit codes: 0 done, 1 failed, 2 called wrongly, 130 interrupted. Results go to standard output, the rest to standard error.";

/** Time that a failed command has to flush its output. */
const FAILED_MS = 1000;

/** Runs a command line without the program's name. Sets the exit code: 0, 1 for a failure, 2 for wrong usage. */
export async function runProgram(program: Program, argv: readonly string[]): Promise<void> {
  resolveFolders(process.env);
  const { logLevel: level, logFormat: format } = peekOptions(argv, commonOptions);
  configureLog({ level, format });
  try {
    await run(program, argv);
  } catch (error) {
    process.exitCode = fail(error);
    // Timers or connections left open by model code must not keep a failed process alive.
    setTimeout(() => exitProcess(), FAILED_MS).unref();
  }
}

const folderVariables = ["LIBTORCH", "SCONCE_HOME", "SCONCE_CACHE_DIR"] as const;

/**
 * Makes relative folders absolute, because commands change the working directory, and child processes may start in
 * another.
 */
function resolveFolders(env: NodeJS.ProcessEnv): void {
  for (const name of folderVariables) {
    const folder = env[name];
    if (folder) env[name] = resolve(folder);
  }
}

async function run(program: Program, argv: readonly string[]): Promise<void> {
  const role = roleOf(argv);
  if (role !== undefined) return runRole(program.roles, role);
  const [first = program.default ?? "--help", ...rest] = argv;
  if (first === "--version" || first === "-v") return print(await program.version());
  if (first === "help" || isHelp(first))
    return printHelp(
      program,
      rest.find((arg) => !arg.startsWith("-")),
    );
  // citty would treat the value of an unknown option as a command's name.
  const rawArgs =
    first.startsWith("-") && program.default !== undefined ? [program.default, ...argv] : [first, ...rest];
  commandOf(program, rawArgs[0] ?? first);
  const end = rawArgs.indexOf("--");
  if (rawArgs.slice(0, end < 0 ? undefined : end).some(isHelp)) return printHelp(program, rawArgs[0]);
  await runCommand(program, { rawArgs });
}

function isHelp(arg: string): boolean {
  return arg === "--help" || arg === "-h";
}

/** Prints the help of a command, or of the program. */
async function printHelp(program: Program, name: string | undefined): Promise<void> {
  const width = helpWidth(process.stdout);
  if (name === undefined || name === program.default) return print(await helpOf(program, width));
  const found = commandOf(program, name);
  print(await helpOf("load" in found ? await found.load() : found, width, program));
}

/** @throws SconceError `usage` */
function commandOf({ subCommands }: Program, name: string): Command | LazyCommand {
  const found = Object.hasOwn(subCommands, name) ? subCommands[name] : undefined;
  if (found !== undefined) return found;
  if (name.startsWith("-")) {
    const near = closest(name, ["--help", "--version"]);
    const hint = near === undefined ? "options stand after the command" : `did you mean ${near}?`;
    throw new SconceError("usage", `unknown option ${name}; ${hint} (see --help)`);
  }
  const near = closest(name, Object.keys(subCommands));
  const hint = near === undefined ? `known: ${Object.keys(subCommands).join(", ")}` : `did you mean ${near}?`;
  throw new SconceError("usage", `unknown command ${name}; ${hint}`);
}

/** Prints results to standard output, with colours only on a terminal. */
function print(text: string): void {
  const isColoured = process.stdout.isTTY && !process.env.NO_COLOR;
  console.log(isColoured ? text : Bun.stripANSI(text));
}

/** Makes untrusted text safe to print: one line, without control and bidirectional characters. */
function printable(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, " ").replaceAll(/[\p{Cc}\p{Bidi_Control}]+/gu, " ");
}

/** Prints an error as one line on standard error; the stack only at log level debug. */
function fail(thrown: unknown): number {
  // citty's error for a missing required argument.
  const missing = thrown instanceof Error && /^Missing required positional argument: (\S+)/.exec(thrown.message)?.[1];
  const error = missing ? new SconceError("usage", `missing argument ${missing} (see --help)`) : thrown;
  // EPIPE: the reader closed the pipe, as `head` does. This is not an error.
  if (error instanceof Error && "code" in error && error.code === "EPIPE") return 0;
  const isKnown = error instanceof SconceError;
  if (isLogJson()) {
    log.error(isKnown ? new SconceError(error.code, messageWithLine(error)) : `unexpected error: ${messageOf(error)}`);
    if (error instanceof Error) log.debug(error.stack ?? "");
  } else {
    const line = isKnown ? messageWithLine(error) : `unexpected error: ${messageOf(error)}`;
    process.stderr.write(`sconce: ${printable(line)}\n`);
    if (log.level >= 4) console.error(error);
  }
  // 130 for SIGINT and SIGTERM alike: shells then treat the command as interrupted.
  if (isKnown && error.code === "canceled") return 130;
  return isKnown && error.code === "usage" ? 2 : 1;
}
