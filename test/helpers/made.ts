/** Files that a Python script with torch makes once on this machine, stored in `.sconce/fixtures`. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { z } from "zod";
import { pythonVariables } from "../../scripts/setup/libtorch.ts";
import { madeOnce } from "../../src/machine/files/made-once.ts";

const root = join(import.meta.dir, "../..");
const libtorch = z.object({
  version: z.string(),
  python: z.object({ command: z.string(), path: z.string().nullable() }),
});

export interface Making {
  /** First part of the folder's name. */
  readonly name: string;
  /** Path of the script. It gets the folder to fill as its argument. */
  readonly script: string;
  /** Other files that the result depends on: a change of one runs the script again. */
  readonly sources?: readonly string[];
}

/** Runs the script, unless its folder exists for the same sources and torch version. @returns the folder */
export async function made({ name, script, sources = [] }: Making): Promise<string> {
  const { version, python } = libtorch.parse(await Bun.file(join(root, ".sconce/libtorch.json")).json());
  const hash = createHash("sha256").update(version);
  for (const path of [script, ...sources]) hash.update(await Bun.file(path).bytes());
  const folder = join(root, ".sconce/fixtures", `${name}-${hash.digest("hex").slice(0, 16)}`);
  return madeOnce(folder, async (temporary) => {
    const env = {
      ...process.env,
      ...pythonVariables(python),
      TORCHINDUCTOR_CACHE_DIR: join(root, ".sconce/inductor"),
      // Compiles the generated wrapper without optimization, which is faster: it runs only once. Its debug information
      // stays, because it names the processor features that sconce checks.
      AOT_INDUCTOR_COMPILE_WRAPPER_OPT_LEVEL: "O0",
      // Otherwise Inductor compiles a file to test each instruction set of the processor.
      TORCHINDUCTOR_VEC_ISA_OK: "1",
    };
    const child = Bun.spawn([python.command, script, temporary], {
      env,
      stdin: "ignore",
      stdout: "ignore",
      stderr: "pipe",
    });
    const errors = await child.stderr.text();
    if ((await child.exited) !== 0) throw new Error(`${script} failed: ${errors}`);
  });
}
