/** Runs commands. Their output is shown after a failure, or with --verbose. */
import { root } from "./step.ts";

/** Thrown when the set-up cannot continue. The lines state the reason and the fix, and are printed unchanged. */
export class Failure extends Error {
  readonly lines: string[];

  constructor(lines: string[]) {
    super(lines.join("\n"));
    this.lines = lines;
  }
}

export interface CommandOptions {
  verbose: boolean;
  env?: Record<string, string | undefined>;
  /** Called with each part of the output. */
  onOutput?: (text: string) => void;
}

const shownLines = 40;

/** Runs a command. @throws Failure with the last lines of the output if the exit code is not 0 */
export async function run(command: string[], { verbose, env = {}, onOutput }: CommandOptions): Promise<void> {
  const child = start(command, { ...process.env, ...env }, verbose ? "inherit" : "pipe");
  const release = endWithUs(child);
  const printed: string[] = [];
  const collected = verbose ? [] : [child.stdout, child.stderr].map((stream) => collect(stream, printed, onOutput));
  await Promise.all([...collected, child.exited]);
  release();
  if (child.exitCode === 0) return;
  const end = child.signalCode ? `was ended by ${child.signalCode}` : `ended with code ${child.exitCode}`;
  const lines = printed.join("").trimEnd().split("\n").slice(-shownLines);
  const more = "All of what it prints: npm run setup -- --verbose";
  throw new Failure([...(verbose ? [] : lines), `This ${end}: ${command.join(" ")}`, ...(verbose ? [] : [more])]);
}

/** Runs a short command and returns its standard output; undefined if the command fails. */
export async function ask(command: string[]): Promise<string | undefined> {
  try {
    const child = Bun.spawn(command, { cwd: root, stdin: "ignore", stdout: "pipe", stderr: "ignore" });
    const answer = await new Response(child.stdout).text();
    return (await child.exited) === 0 ? answer : undefined;
  } catch {
    return undefined;
  }
}

/** A line that names a missing tool and the command that installs it. */
export function missingTool(
  what: string,
  { apt, dnf = apt, brew = apt }: { apt: string; dnf?: string; brew?: string },
): string {
  const sudo = process.getuid?.() === 0 ? "" : "sudo ";
  if (process.platform === "darwin") return `${what}: brew install ${brew}`;
  if (!Bun.which("apt-get") && Bun.which("dnf")) return `${what}: ${sudo}dnf install ${dnf}`;
  return `${what}: ${sudo}apt install ${apt}`;
}

function start(command: string[], env: Record<string, string | undefined>, output: "inherit" | "pipe") {
  try {
    return Bun.spawn(command, { cwd: root, env, stdin: "ignore", stdout: output, stderr: output });
  } catch (cause) {
    throw new Failure([`${command[0]} cannot be started: ${cause instanceof Error ? cause.message : cause}`]);
  }
}

async function collect(
  stream: ReadableStream<Uint8Array> | undefined | number,
  printed: string[],
  onOutput: CommandOptions["onOutput"],
): Promise<void> {
  if (!(stream instanceof ReadableStream)) return;
  const decoder = new TextDecoder();
  for await (const chunk of stream) {
    const text = decoder.decode(chunk, { stream: true });
    printed.push(text);
    onOutput?.(text);
  }
}

/** Makes a signal to this process end the child process, too. @returns a function that removes the signal handlers */
function endWithUs(child: Bun.Subprocess): () => void {
  const signals = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;
  const end = (signal: keyof typeof signals) => {
    child.kill(signal);
    process.exit(128 + signals[signal]);
  };
  const names = Object.keys(signals) as (keyof typeof signals)[];
  for (const name of names) process.on(name, end);
  return () => {
    for (const name of names) process.off(name, end);
  };
}
