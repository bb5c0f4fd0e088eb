/** Runs a Python script that writes folders of cases. After a crash, it restarts the script behind the failed case. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { pythonVariables, readLibtorch } from "../../scripts/setup/libtorch.ts";
import { linesOf } from "./checker.ts";

export interface Making {
  /** Name of a script in this folder. */
  readonly script: string;
  readonly args: readonly string[];
  /** Output folder. */
  readonly out: string;
  /** Path of further Python packages. */
  readonly packages?: string | undefined;
  /** Path of another torch than the set-up's. */
  readonly torch?: string | undefined;
}

/** A complete folder, or a case that could not be made. */
export type Made = { readonly folder: string } | { readonly skipped: string; readonly reason: string };

const message = z.union([
  z.object({ at: z.string() }),
  z.object({ folder: z.string() }),
  z.object({ skipped: z.string(), reason: z.string() }),
]);

/** The script counts as stuck after this time without output. */
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
