/**
 * Runs the command line in a child process: under `npm test` a compiled file, which starts faster, otherwise the
 * sources. Neither runs the set-up of the checkout.
 */
import { fileURLToPath } from "node:url";
import { readLibtorch } from "../../scripts/setup/libtorch.ts";
import { Client } from "./client.ts";
import { cacheFolder, machineEnv } from "./machine.ts";

const script = fileURLToPath(new URL("./sconce.ts", import.meta.url));
const root = fileURLToPath(new URL("../..", import.meta.url));
const { SCONCE_TEST_PROGRAM: compiled } = process.env;

interface Program {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

export const sources: Program = { command: [process.execPath, "--no-install", script], env: {} };

/**
 * The command line for tests. The variables give the compiled file the checkout's libtorch, and the program name that
 * the sources print in hints.
 */
export const program: Program =
  compiled === undefined
    ? sources
    : {
        command: [compiled],
        env: { LIBTORCH: readLibtorch()?.root ?? "", SCONCE_PROGRAM: "sconce", SCONCE_CACHE_DIR: cacheFolder },
      };

export interface CliOptions {
  /** Variables added to an environment without SCONCE_* variables. Most commands need `SCONCE_HOME`. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Whether to run the sources, even under `npm test`. */
  readonly isSource?: boolean;
  /** Text on standard input; default: none. */
  readonly input?: string;
  /** Whether the command has no terminal, as under a service manager. */
  readonly detached?: boolean;
}

export interface CliResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command until it ends. @returns its output and exit code */
export async function cli(args: readonly string[], options: CliOptions = {}): Promise<CliResult> {
  const child = spawn(args, options);
  const [stdout, stderr, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  return { code, stdout, stderr: stderr.split("\n").filter(isNoSlowStep).join("\n") };
}

/** Runs a command on a terminal of 80 columns until it ends. @returns its exit code and what a user sees */
export async function cliOnTerminal(
  args: readonly string[],
  options: CliOptions = {},
): Promise<{ readonly code: number; readonly screen: string }> {
  const chunks: Uint8Array[] = [];
  const child = Bun.spawn([...sources.command, ...args], {
    cwd: options.cwd ?? root,
    env: { ...environmentOf(options), TERM: "xterm-256color" },
    terminal: { cols: 80, rows: 24, data: (_, data) => void chunks.push(Uint8Array.from(data)) },
  });
  const code = await child.exited;
  child.terminal?.close();
  return { code, screen: Buffer.concat(chunks).toString().replaceAll("\r\n", "\n") };
}

/** A running command, for `await using`: the end of the scope kills it. */
export interface RunningCli extends AsyncDisposable {
  readonly pid: number;
  readonly exited: Promise<number>;
  /** Resolves with the whole standard output when the process ends. */
  readonly stdout: Promise<string>;
  /** Lines of standard error so far. */
  readonly lines: readonly string[];
  /**
   * Resolves with the first line of standard error that contains `part`, from index `seen` on; rejects if the process
   * ends before such a line.
   */
  line(part: string, seen?: number): Promise<string>;
  kill(signal: NodeJS.Signals): void;
}

export function startCli(args: readonly string[], options: CliOptions = {}): RunningCli {
  return follow(spawn(args, options));
}

/** Collects the output of a child process, line by line. */
export function follow(child: Bun.Subprocess<"ignore" | Blob, "pipe", "pipe">): RunningCli {
  const lines: string[] = [];
  let waiters: (() => void)[] = [];
  const wake = () => {
    for (const waiter of waiters.splice(0)) waiter();
  };
  let isOver = false;
  const reading = (async () => {
    const decoder = new TextDecoder();
    let rest = "";
    for await (const chunk of child.stderr) {
      const parts = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = parts.pop() ?? "";
      lines.push(...parts.filter(isNoSlowStep));
      wake();
    }
    isOver = true;
    wake();
  })();
  const stdout = new Response(child.stdout).text();
  return {
    pid: child.pid,
    exited: child.exited,
    stdout,
    lines,
    async line(part, seen = 0) {
      for (;;) {
        for (; seen < lines.length; seen++) if (lines[seen]?.includes(part)) return lines[seen] ?? "";
        if (isOver) throw new Error(`the process ended without the line "${part}":\n${lines.join("\n")}`);
        await new Promise<void>((resolve) => waiters.push(resolve));
      }
    },
    kill: (signal) => child.kill(signal),
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
      await child.exited;
      await Promise.all([reading, stdout]);
      waiters = [];
    },
  };
}

/** False for the line that announces a slow step: only slow machines print it. */
function isNoSlowStep(line: string): boolean {
  return !/^ℹ .* …$/.test(line);
}

function spawn(args: readonly string[], options: CliOptions) {
  const { cwd = root, isSource = false, input, detached = false } = options;
  const { command, env } = isSource ? sources : program;
  return Bun.spawn([...command, ...args], {
    cwd,
    env: { ...env, ...environmentOf(options) },
    stdin: input === undefined ? "ignore" : new Blob([input]),
    stdout: "pipe",
    stderr: "pipe",
    detached,
  });
}

function environmentOf({ env = {} }: CliOptions): Record<string, string> {
  const { PATH = "", HOME = "", TMPDIR = "/tmp" } = process.env;
  return { PATH, HOME, TMPDIR, ...machineEnv, ...env };
}

/** Resolves with a client for the admin port of a starting server. */
export async function adminOf(server: RunningCli): Promise<Client> {
  const line = await server.line("Admin port");
  return new Client(new URL(/http:[^\s"]+/.exec(line)?.[0] ?? ""));
}

/** Resolves with a client for a starting server, once the server is ready. */
export async function clientOf(server: RunningCli): Promise<Client> {
  const line = await server.line("Listening on");
  return new Client(new URL(/http:[^\s"]+/.exec(line)?.[0] ?? ""));
}
