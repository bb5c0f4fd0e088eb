/**
 * Runs a Python script that writes folders of cases. After a crash the script starts again with the case after the
 * failed one.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { pythonVariables, readLibtorch } from "../../scripts/setup/libtorch.ts";
import { linesOf } from "./checker.ts";

export interface Making {
  /** File name of a script in this folder. */
  readonly script: string;
  readonly args: readonly string[];
  /** Folder for the output of the script. */
  readonly out: string;
  /** Folder with additional Python packages. */
  readonly packages?: string | undefined;
  /** Folder with the torch to use instead of the torch that `npm run setup` found or installed. */
  readonly torch?: string | undefined;
}

/** A complete folder of cases, or a case that Python could not make. */
export type Made = { readonly folder: string } | { readonly skipped: string; readonly reason: string };

const message = z.union([
  z.object({ at: z.string() }),
  z.object({ folder: z.string() }),
  z.object({ skipped: z.string(), reason: z.string() }),
]);

/** Milliseconds without output after which the script counts as stuck. */
const SILENCE_MS = 300_000;

export async function* made({ script, args, out, packages, torch }: Making): AsyncGenerator<Made> {
  const python = readLibtorch()?.python;
  if (python == null) throw new Error("the libtorch in use came without a Python that has torch");
  mkdirSync(out, { recursive: true });
  const { PYTHONPATH, ...variables } = pythonVariables(python);
  const path = [torch, packages, PYTHONPATH].filter((folder) => folder !== undefined).join(":");
  for (let after: string | undefined; ; ) {
    const resumed = after === undefined ? [] : [`--after=${after}`];
    const running = Bun.spawn([python.command, join(import.meta.dir, script), out, ...args, ...resumed], {
      env: { ...process.env, ...variables, PYTHONPATH: path, OMP_NUM_THREADS: "1" },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    const errors = running.stderr.text();
    let at: string | undefined;
    let timer = setTimeout(() => running.kill("SIGKILL"), SILENCE_MS);
    for await (const line of linesOf(running.stdout)) {
      if (!line.startsWith("{")) continue;
      clearTimeout(timer);
      timer = setTimeout(() => running.kill("SIGKILL"), SILENCE_MS);
      const said = message.parse(JSON.parse(line));
      if ("at" in said) at = said.at;
      else yield said;
    }
    clearTimeout(timer);
    if ((await running.exited) === 0) return;
    if (at === undefined || at === after) throw new Error(`${script} failed: ${(await errors).slice(-2000)}`);
    yield {
      skipped: at,
      reason: `Python ended by ${running.signalCode ?? `code ${running.exitCode}: ${(await errors).slice(-300)}`}`,
    };
    after = at;
  }
}
