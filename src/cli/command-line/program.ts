/** A program with commands: finds the command, prints help, and turns each error into one line and an exit code. */
import { resolve } from "node:path";
import { runCommand } from "citty";
import { messageWithLine } from "../../base/author-line.ts";
import { closest } from "../../base/closest.ts";
import { codeOf, messageOf, SconceError } from "../../base/errors.ts";
import { configureLog, isLogJson, log, logTimes } from "../../base/log.ts";
import { exitProcess } from "../../machine/processes/exit.ts";
import { type Roles, roleOf, runRole } from "../../machine/processes/link.ts";
import { commonOptions } from "../../server/config.ts";
import { type Commands, type ListedCommand, peekOptions, usage } from "./command.ts";
import { commandHelp, helpWidth, programHelp } from "./help.ts";

export interface Program {
  /** Name of the program, as users type it. */
  readonly name: string;
  description(): string | Promise<string>;
  readonly commands: Commands;
  /** The command that runs if the command line names none. Without a default, help is printed. */
  readonly default?: string;
  version(): string | Promise<string>;
  /** Functions that run in child processes, by role. Help does not list the roles. */
  readonly roles: Roles;
}

const exitCodes =
  "Exit codes: 0 done, 1 failed, 2 called wrongly, 130 interrupted. Results go to standard output, the rest to standard error.";

/** Milliseconds that a failed command has to flush its output. */
const FAILED_MS = 1000;

/**
 * Runs a command. `argv` has no program name. Sets the exit code: 0 done, 1 failed, 2 wrong arguments, 130 interrupted.
 */
export async function runProgram(program: Program, argv: readonly string[]): Promise<void> {
  resolveFolders(process.env);
  const { logLevel: level, logFormat: format } = peekOptions(argv, commonOptions);
  configureLog({ level, format });
  try {
    await run(program, argv);
  } catch (error) {
    process.exitCode = fail(error);
    // Ends the process even if model code left timers or connections open.
    setTimeout(() => exitProcess(), FAILED_MS).unref();
  }
}

const folderVariables = ["LIBTORCH", "SCONCE_HOME", "SCONCE_CACHE_DIR"] as const;

/**
 * Makes relative folders in environment variables absolute, because child processes may have another working directory.
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
  if (first === "help" || isHelp(first)) return printHelp(program, rest);
  const isDefault = first.startsWith("-") && program.default !== undefined;
  const [name, rawArgs] = isDefault ? [program.default, argv] : [first, rest];
  const found = commandOf(program, name);
  const end = rawArgs.indexOf("--");
  if (rawArgs.slice(0, end < 0 ? undefined : end).some(isHelp)) return printHelp(program, [name, ...rawArgs]);
  const command = await found.load();
  if (command.isServer) logTimes();
  await runCommand(command, { rawArgs: [...rawArgs] });
}

function isHelp(arg: string): boolean {
  return arg === "--help" || arg === "-h";
}

/**
 * Prints the help of the command that the arguments begin with. Without a command, prints the help of the default
 * command, or of the program if it has no default.
 */
async function printHelp(program: Program, [given = "", ...others]: readonly string[]): Promise<void> {
  const { name, commands } = program;
  const width = helpWidth(process.stdout);
  const isAll = [given, ...others].includes("--all");
  const chosen = given === "" || given.startsWith("-") ? program.default : given;
  if (chosen === undefined) {
    return print(programHelp({ name, description: await program.description(), width, commands, notes: exitCodes }));
  }
  const found = commandOf(program, chosen);
  const whole = { name, description: await program.description(), commands };
  const own = { name: `${name} ${chosen}`, description: found.description };
  print(commandHelp(await found.load(), { ...(chosen === program.default ? whole : own), width, isAll }));
}

function commandOf({ commands }: Program, name: string): ListedCommand {
  const found = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (found !== undefined) return found;
  if (name.startsWith("-")) {
    const near = closest(name, ["--help", "--version"]);
    const hint = near === undefined ? "options stand after the command" : `did you mean ${near}?`;
    throw usage(`unknown option ${name}; ${hint} (see --help)`);
  }
  const near = closest(name, Object.keys(commands));
  const hint = near === undefined ? `known: ${Object.keys(commands).join(", ")}` : `did you mean ${near}?`;
  throw usage(`unknown command ${name}; ${hint}`);
}

/** Prints help and versions to standard output, with bold text only on a terminal. */
function print(text: string): void {
  const isColoured = process.stdout.isTTY && !process.env.NO_COLOR;
  console.log(isColoured ? text : Bun.stripANSI(text));
}

/** Makes untrusted text safe to print: one line, without control and bidirectional characters. */
function printable(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, " ").replaceAll(/[\p{Cc}\p{Bidi_Control}]+/gu, " ");
}

/** Prints an error as one line on standard error, and its stack only at log level debug. @returns the exit code */
function fail(error: unknown): number {
  // EPIPE means that the reader closed the pipe, as `head` does. This is not an error.
  if (codeOf(error) === "EPIPE") return 0;
  const isKnown = error instanceof SconceError;
  if (isLogJson()) {
    log.error(isKnown ? new SconceError(error.code, messageWithLine(error)) : `unexpected error: ${messageOf(error)}`);
    if (error instanceof Error) log.debug(error.stack ?? "");
  } else {
    const line = isKnown ? messageWithLine(error) : `unexpected error: ${messageOf(error)}`;
    process.stderr.write(`sconce: ${printable(line)}\n`);
    if (log.level >= 4) console.error(error);
  }
  // SIGINT and SIGTERM both give 130, so that shells treat the command as interrupted.
  if (isKnown && error.code === "canceled") return 130;
  return isKnown && error.code === "usage" ? 2 : 1;
}
