/** Commands that share an environment and a working folder. */
import { type CliOptions, type CliResult, cli, cliOnTerminal, type RunningCli, startCli } from "./cli.ts";
import { cliHere } from "./command-here.ts";

export interface CommandLine {
  /** Runs a command in a process, as `cli` does. The options of a call take precedence over the shared options. */
  cli(args: readonly string[], options?: CliOptions): Promise<CliResult>;
  /** Runs a command in the test's own process, as `cliHere` does. */
  cliHere(args: readonly string[], options?: CliOptions): Promise<CliResult>;
  /** Runs a command on a terminal, as `cliOnTerminal` does. */
  cliOnTerminal(args: readonly string[], options?: CliOptions): ReturnType<typeof cliOnTerminal>;
  /** Starts a command in a process, as `startCli` does. */
  startCli(args: readonly string[], options?: CliOptions): RunningCli;
}

export function commandLine(shared: CliOptions): CommandLine {
  const all = (own: CliOptions = {}): CliOptions => ({ ...shared, ...own, env: { ...shared.env, ...own.env } });
  return {
    cli: (args, options) => cli(args, all(options)),
    cliHere: (args, options) => cliHere(args, all(options)),
    cliOnTerminal: (args, options) => cliOnTerminal(args, all(options)),
    startCli: (args, options) => startCli(args, all(options)),
  };
}
