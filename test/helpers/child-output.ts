/** Child processes: what they print, and how they end. */

export interface Ended {
  /** Exit code; beyond 128 for a signal. */
  readonly code: number;
  readonly signal: NodeJS.Signals | number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Standard output, then standard error. */
  readonly output: string;
}

/** Runs a command until it ends. @param options.env all variables of the process; default: those of this process */
export async function run(
  command: readonly string[],
  { cwd = process.cwd(), env = process.env }: { readonly cwd?: string; readonly env?: NodeJS.Dict<string> } = {},
): Promise<Ended> {
  const child = Bun.spawn([...command], { cwd, env, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { code, signal: child.signalCode, stdout, stderr, output: stdout + stderr };
}

/** Resolves with the first match in the output. Reading continues afterwards: a full pipe would block the process. */
export async function matchIn(output: ReadableStream<Uint8Array>, pattern: RegExp): Promise<RegExpExecArray> {
  const { promise, resolve, reject } = Promise.withResolvers<RegExpExecArray>();
  void (async () => {
    const decoder = new TextDecoder();
    let text = "";
    for await (const chunk of output) {
      text = (text + decoder.decode(chunk, { stream: true })).slice(-4000);
      const match = pattern.exec(text);
      if (match !== null) resolve(match);
    }
    reject(new Error(`the process ended: ${text}`));
  })();
  return await promise;
}
