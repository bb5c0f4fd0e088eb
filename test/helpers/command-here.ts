/** Runs `sconce` commands in the test's own process: a child process costs half a second of processor time. */
import { runCommand } from "citty";
import type { Command } from "../../src/cli/command-line/command.ts";
import { withConsole } from "../../src/server/flow/captured-console.ts";

export interface CommandHereOptions {
  /** SCONCE_HOME of the command: the folder of the model store. */
  readonly home: string;
  /** Working folder of the command. */
  readonly cwd?: string;
}

/** A command changes the environment and the working folder of the whole process, so commands run one after another. */
let last: Promise<unknown> = Promise.resolve();

/** Runs a command. @returns its standard output; rejects with the error that the command line would print */
export function commandHere(command: Command, args: readonly string[], options: CommandHereOptions): Promise<string> {
  const running = last.catch(() => {}).then(() => run(command, args, options));
  last = running;
  return running;
}

async function run(command: Command, args: readonly string[], { home, cwd }: CommandHereOptions): Promise<string> {
  const before = { home: process.env.SCONCE_HOME, cwd: process.cwd() };
  let printed = "";
  process.env.SCONCE_HOME = home;
  if (cwd !== undefined) process.chdir(cwd);
  try {
    await withConsole(
      (text) => {
        printed += text;
      },
      () => runCommand(command, { rawArgs: [...args] }),
    );
  } finally {
    process.chdir(before.cwd);
    if (before.home === undefined) delete process.env.SCONCE_HOME;
    else process.env.SCONCE_HOME = before.home;
  }
  return printed;
}
