/**
 * Runs the command line in a child process, without the set-up: under `npm test` as one compiled file, which starts
 * faster, else from the sources.
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

/** The compiled file finds libtorch by its variable, and prints the same program name in hints as the sources. */
export const program: Program =
  compiled === undefined
    ? sources
    : {
        command: [compiled],
        env: { LIBTORCH: readLibtorch()?.root ?? "", SCONCE_PROGRAM: "sconce", SCONCE_CACHE_DIR: cacheFolder },
      };

export interface CliOptions {
  /** Added to a clean environment. Most commands need `SCONCE_HOME`. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Runs the sources also under `npm test`. */
  readonly isSource?: boolean;
}

export interface CliResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command until it ends. */
export async function cli(args: readonly string[], options: CliOptions = {}): Promise<CliResult> {
  const child = spawn(args, options);
  const [stdout, stderr, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  return { code, stdout, stderr: stderr.split("\n").filter(isNoSlowStep).join("\n") };
}

/** A running command. The end of the scope kills it. */
export interface RunningCli extends AsyncDisposable {
  readonly pid: number;
  readonly exited: Promise<number>;
  /** All of standard output; resolves at the end of the process. */
  readonly stdout: Promise<string>;
  /** Standard error so far, line by line. */
  readonly lines: readonly string[];
  /** Resolves with the first line of standard error from index `seen` that contains `part`; rejects if the process ends without such a line. */
  line(part: string, seen?: number): Promise<string>;
  kill(signal: NodeJS.Signals): void;
}

export function startCli(args: readonly string[], options: CliOptions = {}): RunningCli {
  return follow(spawn(args, options));
}

/** Collects the output of a process. */
export function follow(child: Bun.Subprocess<"ignore", "pipe", "pipe">): RunningCli {
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

/** False for progress lines of slow steps: a fast machine prints none. */
function isNoSlowStep(line: string): boolean {
  return !/^ℹ .* …$/.test(line);
}

function spawn(args: readonly string[], { env = {}, cwd = root, isSource = false }: CliOptions) {
  const { PATH = "", HOME = "", TMPDIR = "/tmp" } = process.env;
  const { command, env: own } = isSource ? sources : program;
  return Bun.spawn([...command, ...args], {
    cwd,
    env: { PATH, HOME, TMPDIR, ...own, ...machineEnv, ...env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
}

/** A client for a server command. Resolves once the server is ready. */
export async function clientOf(server: RunningCli): Promise<Client> {
  const line = await server.line("Listening on");
  return new Client(new URL(/http:\S+/.exec(line)?.[0] ?? ""));
}
