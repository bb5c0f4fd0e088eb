/** Runs the command line on a terminal, or with text on its standard input. */
import { fileURLToPath } from "node:url";
import type { CliOptions, CliResult } from "./cli.ts";
import { machineEnv } from "./machine.ts";

const script = fileURLToPath(new URL("./sconce.ts", import.meta.url));
const root = fileURLToPath(new URL("../..", import.meta.url));

function commandOf(args: readonly string[]): string[] {
  return [process.execPath, "--no-install", script, ...args];
}

function environment({ env = {} }: CliOptions): Record<string, string> {
  const { PATH = "", HOME = "", TMPDIR = "/tmp" } = process.env;
  return { PATH, HOME, TMPDIR, TERM: "xterm-256color", ...machineEnv, ...env };
}

export interface TerminalResult {
  readonly code: number;
  /** What a user sees: standard output and standard error, in order of arrival. */
  readonly screen: string;
}

/** Runs a command on a terminal of 80 columns until it ends. */
export async function cliOnTerminal(args: readonly string[], options: CliOptions = {}): Promise<TerminalResult> {
  const chunks: Uint8Array[] = [];
  const child = Bun.spawn(commandOf(args), {
    cwd: options.cwd ?? root,
    env: environment(options),
    terminal: { cols: 80, rows: 24, data: (_, data) => void chunks.push(Uint8Array.from(data)) },
  });
  const code = await child.exited;
  child.terminal?.close();
  return { code, screen: Buffer.concat(chunks).toString().replaceAll("\r\n", "\n") };
}

/** Runs a command with `input` on its standard input until it ends. */
export async function cliWithInput(
  args: readonly string[],
  input: string,
  options: CliOptions = {},
): Promise<CliResult> {
  const child = Bun.spawn(commandOf(args), {
    cwd: options.cwd ?? root,
    env: environment(options),
    stdin: new Blob([input]),
    stdout: "pipe",
    stderr: "pipe",
  });
  const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { code, stdout, stderr };
}
