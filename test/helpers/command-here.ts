/** Runs `sconce` commands in the test's own process: a child process costs half a second of processor time. */
import { runCommand } from "citty";
import { messageWithLine } from "../../src/base/author-line.ts";
import { withConsole } from "../../src/base/captured-console.ts";
import { SconceError } from "../../src/base/errors.ts";
import { configureLog, logOptions } from "../../src/base/log.ts";
import { commands } from "../../src/cli/cli.ts";
import type { Command } from "../../src/cli/command-line/command.ts";
import type { CliOptions, CliResult } from "./cli.ts";
import { machineEnv } from "./machine.ts";

export interface CommandHereOptions {
  /** SCONCE_HOME of the command: the folder of the model store. */
  readonly home: string;
  /** Working folder of the command. */
  readonly cwd?: string;
}

/** A command changes the environment and the working folder of the whole process, so commands run one after another. */
let last: Promise<unknown> = Promise.resolve();

/** Runs a command. @returns its standard output; rejects with the error that the command line would print */
export function commandHere(
  command: Command,
  args: readonly string[],
  { home, cwd }: CommandHereOptions,
): Promise<string> {
  return inTurn(async () => {
    let printed = "";
    const write = (text: string) => {
      printed += text;
    };
    await run(command, args, { env: { ...machineEnv, SCONCE_HOME: home }, cwd, write });
    return printed;
  });
}

/**
 * Runs a command line. @returns its exit code and output, as `cli` does for a child process. Standard output also has
 * the console output of models. Standard error has the log lines, and the line of an error. This function imitates the exit code and the error line, so their tests use `cli`
 */
export function cliHere(
  [name = "", ...args]: readonly string[],
  { env = {}, cwd }: Omit<CliOptions, "isSource"> = {},
): Promise<CliResult> {
  return inTurn(async () => {
    const command = await commands[name]?.load();
    if (command === undefined) throw new Error(`there is no command ${name}`);
    const before = { log: logOptions(), exitCode: process.exitCode, write: process.stderr.write };
    let [stdout, stderr] = ["", ""];
    configureLog({ level: "info", format: "text", hasTimes: false });
    process.stderr.write = (text: string | Uint8Array) => {
      stderr += typeof text === "string" ? text : new TextDecoder().decode(text);
      return true;
    };
    process.exitCode = 0;
    const write = (text: string) => {
      stdout += text;
    };
    try {
      await run(command, args, { env: { ...machineEnv, ...env }, cwd, write });
      return { code: Number(process.exitCode), stdout, stderr };
    } catch (error) {
      if (!(error instanceof SconceError)) throw error;
      return { code: error.code === "usage" ? 2 : 1, stdout, stderr: `${stderr}sconce: ${messageWithLine(error)}\n` };
    } finally {
      process.stderr.write = before.write;
      process.exitCode = before.exitCode ?? 0;
      configureLog(before.log);
    }
  });
}

function inTurn<T>(task: () => Promise<T>): Promise<T> {
  const running = last.catch(() => {}).then(task);
  last = running;
  return running;
}

interface Surroundings {
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string | undefined;
  /** Receives standard output. */
  readonly write: (text: string) => void;
}

async function run(command: Command, args: readonly string[], { env, cwd, write }: Surroundings): Promise<void> {
  const before = { env: Object.keys(env).map((name) => [name, process.env[name]] as const), cwd: process.cwd() };
  Object.assign(process.env, env);
  if (cwd !== undefined) process.chdir(cwd);
  try {
    await withConsole(write, () => runCommand(command, { rawArgs: [...args] }));
  } finally {
    process.chdir(before.cwd);
    for (const [name, value] of before.env) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
}
