/** Files that a Python script with torch makes once on this machine, kept in `.sconce/fixtures`. */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { pythonVariables } from "../../scripts/setup/libtorch.ts";

const root = join(import.meta.dir, "../..");
const libtorch = z.object({
  version: z.string(),
  python: z.object({ command: z.string(), path: z.string().nullable() }),
});

export interface Making {
  /** Begins the folder's name. */
  readonly name: string;
  /** Called with the folder that it is to make. */
  readonly script: string;
  /** Whatever else, when it changes, asks for making it anew. */
  readonly sources?: readonly string[];
}

/** @returns the folder that the script made, now or the last time that its sources and torch were the same */
export async function made({ name, script, sources = [] }: Making): Promise<string> {
  const { version, python } = libtorch.parse(await Bun.file(join(root, ".sconce/libtorch.json")).json());
  const hash = createHash("sha256").update(version);
  for (const path of [script, ...sources]) hash.update(await Bun.file(path).bytes());
  const folder = join(root, ".sconce/fixtures", `${name}-${hash.digest("hex").slice(0, 16)}`);
  if (existsSync(folder)) return folder;
  // Made beside its place: where two processes make the same, the first one's stays.
  const unfinished = `${folder}.unfinished-${process.pid}`;
  const env = {
    ...process.env,
    ...pythonVariables(python),
    TORCHINDUCTOR_CACHE_DIR: join(root, ".sconce/inductor"),
    // Compiled sooner, run once. Its tables of lines it keeps: they say for which processor it is.
    AOT_INDUCTOR_COMPILE_WRAPPER_OPT_LEVEL: "O0",
    // Else it compiles a file with each instruction set to see whether that can be done.
    TORCHINDUCTOR_VEC_ISA_OK: "1",
  };
  const child = Bun.spawn([python.command, script, unfinished], {
    env,
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  });
  const errors = await child.stderr.text();
  if ((await child.exited) !== 0) {
    await rm(unfinished, { recursive: true, force: true });
    throw new Error(`${script} failed: ${errors}`);
  }
  await rename(unfinished, folder).catch((error: unknown) => {
    if (!existsSync(folder)) throw error;
  });
  await rm(unfinished, { recursive: true, force: true });
  return folder;
}
